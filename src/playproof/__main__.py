"""Run the command line as `python -m playproof`."""

import sys

from playproof.cli.app import main

sys.exit(main())
