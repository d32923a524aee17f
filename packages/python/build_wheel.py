"""Builds the wheel of this package. It is one file, so that no other tool is needed for it."""

import base64
import hashlib
import os
import re
import zipfile

NAME = "drawgate_plugin"
MODULE = NAME + ".py"


def _text(name):
    with open(name, encoding="utf-8") as file:
        return file.read()


VERSION = re.search('^__version__ = "(.+)"$', _text(MODULE), re.MULTILINE).group(1)
INFO = f"{NAME}-{VERSION}.dist-info"
# The first time that a zip archive can say: the same content gives the same archive.
DATE = (1980, 1, 1, 0, 0, 0)

METADATA = f"""Metadata-Version: 2.1
Name: drawgate-plugin
Version: {VERSION}
Summary: Plugins of Drawgate, the tool gateway for AI agents, in Python
License: Apache-2.0
Requires-Python: >=3.9
Description-Content-Type: text/markdown

"""
WHEEL = "Wheel-Version: 1.0\nGenerator: drawgate\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Called by installers (PEP 517)."""
    files = {MODULE: _text(MODULE), f"{INFO}/METADATA": METADATA + _text("README.md"), f"{INFO}/WHEEL": WHEEL}
    record = [f"{path},sha256={_digest(text)},{len(text.encode())}" for path, text in files.items()]
    files[f"{INFO}/RECORD"] = "\n".join([*record, f"{INFO}/RECORD,,", ""])
    name = f"{NAME}-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, text in files.items():
            wheel.writestr(zipfile.ZipInfo(path, DATE), text)
    return name


def _digest(text):
    digest = hashlib.sha256(text.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
