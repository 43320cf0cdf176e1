"""`python -m deform_models.package`."""

import sys

from deform_models.package.cli import main

sys.exit(main())
