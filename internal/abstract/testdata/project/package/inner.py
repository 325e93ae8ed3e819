from .. import helper
thing = "thing"
