"""Pages that several tasks use, each in a package: `page.py` has PAGE, ACTIONS and describe, `web/` what the browser loads."""
