"""What an administrator has in an empty folder before the five commands: the wheel, the lock file, and pip."""

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.support.server import REPO

NOT_PACKAGED = shutil.ignore_patterns(
    ".*", "tests", "bench", "node_modules", "instance", "build", "dist", "*.egg-info", "__pycache__"
)
NOT_SHARED = ("countersign", "__editable__", "pip", "_distutils_hack", "distutils-precedence")


def build_wheel(folder: Path) -> Path:
    """Build the wheel from a copy of the checkout, as `pip wheel --no-deps .` does, without fetching anything."""
    source = folder / "source"
    shutil.copytree(REPO, source, ignore=NOT_PACKAGED)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(folder)]
    subprocess.run([*command, "--disable-pip-version-check", str(source)], check=True)
    return next(folder.glob("*.whl"))


def lend_libraries(folder: Path) -> None:
    """Let the virtual environment that is about to be made in `folder`/venv find our libraries, all but Countersign.

    pip then takes each as installed, in exactly the version of the lock file, and fetches nothing: this test is about
    our package and our words, not about the package index.
    """
    shared = folder / "libraries"
    shared.mkdir()
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if not path.name.startswith(NOT_SHARED) and path.suffix != ".pth":
            (shared / path.name).symlink_to(path)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = folder / "venv" / "lib" / version / "site-packages"
    site.mkdir(parents=True)
    (site / "lent.pth").write_text(f"{shared}\n")
