"""Makes this environment's Python run the package from the checkout: `import flashrt_ros` and the `flashrt` command."""

import sys
import sysconfig
from pathlib import Path

checkout = Path(__file__).resolve().parent.parent
# Before site-packages, where rosidl puts the compiled messages under the same package name. FLASHRT_INSTALLED=1 turns it
# off, to try an installed copy.
Path(sysconfig.get_path("purelib"), "flashrt_ros_checkout.pth").write_text(
    f"import os, sys; os.environ.get('FLASHRT_INSTALLED') or sys.path.insert(0, {str(checkout)!r})\n")
command = Path(sysconfig.get_path("scripts"), "flashrt")
command.write_text(f"#!{sys.executable}\n" + (checkout / "scripts" / "flashrt").read_text().partition("\n")[2])
command.chmod(0o755)
