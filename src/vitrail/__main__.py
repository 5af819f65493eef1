"""python -m vitrail"""

from vitrail.cli.app import main

main()
