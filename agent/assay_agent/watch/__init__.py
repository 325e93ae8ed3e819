"""What is watched. A folder for each framework, one file per hook (frameworks.py); what is watched of any script
stands here."""
