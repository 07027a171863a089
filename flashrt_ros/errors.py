"""The exception root. Every error that a user can cause or mend derives from FlashRTError.

Messages name the thing, the value found, what is allowed, and the way out.
"""


class FlashRTError(Exception):
    """Root of all errors that this package raises on purpose."""
