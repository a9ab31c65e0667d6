"""``python -m countjump`` is the ``countjump`` command."""

import sys


def main() -> int:
    """The command: Ctrl-C ends it with a line and code 130, also while it is being imported."""
    try:
        from countjump.cli import main as run

        return run()
    except KeyboardInterrupt:
        print("countjump: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
