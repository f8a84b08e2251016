"""Runs the command line as `python -m amberlog.cli`."""

import sys

from amberlog.cli.commands import main

sys.exit(main())
