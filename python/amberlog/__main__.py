"""Runs the command line as `python -m amberlog`."""

import sys

from amberlog.cli import main

sys.exit(main())
