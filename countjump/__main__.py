"""``python -m countjump`` is the ``countjump`` command."""

import sys

from countjump.cli import main

sys.exit(main())
