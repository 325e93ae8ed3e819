NAME = "sub"
