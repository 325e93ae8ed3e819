from probe import here

try:
    here()  # caught, guarded
except:
    here()  # maybe, handler
else:
    here()  # top
finally:
    here()  # top
here()  # top

try:
    here()  # caught, guarded
except Exception as e:
    pass
try:
    here()  # caught, guarded
except BaseException:
    pass
try:
    here()  # guarded
except ImportError:
    pass
try:
    here()  # guarded
except ModuleNotFoundError:
    pass
try:
    here()  # caught
except RuntimeError:
    pass
try:
    here()  # caught
except NotImplementedError:
    pass
try:
    here()  # caught
except AssertionError:
    pass
try:
    here()  # caught
except TypeError:
    pass
try:
    here()  # caught
except builtins.TypeError:
    pass
try:
    here()  # caught, guarded
except (ImportError, RuntimeError):
    pass
try:
    here()  # top
except KeyError:
    pass
try:
    here()  # top
except MyRuntimeError:
    pass
try:
    here()  # top
finally:
    pass


def risky():
    here()  # in risky, caught


def safe():
    try:
        risky()
    except RuntimeError:
        here()  # in safe, maybe, handler
    here()  # in safe


safe()
try:
    try:
        here()  # caught, guarded
    except KeyError:
        here()  # maybe, caught, guarded, handler
    here()  # caught, guarded
except Exception:
    pass
