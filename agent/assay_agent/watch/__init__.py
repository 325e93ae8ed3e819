"""What is watched, one file per hook. Each has install(torch, config), called once when the framework has been imported."""
