"""``python -m npga.cli`` is the command `npga`."""

from npga.cli import main

main()
