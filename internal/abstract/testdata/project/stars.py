open_star = 1
_hidden = 2
from more_stars import *
