"""What PyPA's packaging says: reads {"specifiers": [...], "versions": [...], "markers": [...]} and answers in kind."""
import json
import sys

from packaging.markers import Marker
from packaging.specifiers import SpecifierSet

MAC = {"sys_platform": "darwin", "platform_system": "Darwin", "os_name": "posix", "platform_machine": "arm64",
       "platform_python_implementation": "CPython", "implementation_name": "cpython", "python_version": "3.11",
       "python_full_version": "3.11.7", "implementation_version": "3.11.7"}
asked = json.load(sys.stdin)
print(json.dumps({
    "allows": [[SpecifierSet(s).contains(v, prereleases=True) for v in asked["versions"]] for s in asked["specifiers"]],
    "holds": [Marker(m).evaluate(MAC) for m in asked["markers"]],
}))
