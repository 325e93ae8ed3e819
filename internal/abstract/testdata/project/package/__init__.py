from .inner import thing
