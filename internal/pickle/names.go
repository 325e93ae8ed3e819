package pickle

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"assay/internal/fault"
)

// A Danger says why a name was refused.
type Danger string

// Kinds of danger.
const (
	RunsCode  Danger = "runs code or commands"
	Reaches   Danger = "reaches files, the network or the process"
	Gadget    Danger = "reaches into objects, by which code can be run"
	NotListed Danger = "is on no list of what weights are made of"
)

// A Refusal is a name that a pickle asks for and that it is not given.
type Refusal struct {
	Name   string
	Offset int64 // of the operation that asks for it
	Danger Danger
}

func (r *Refusal) Error() string {
	return fmt.Sprintf("its pickle asks for %s at byte %d, which %s: refused, and nothing of it was run", r.Name,
		r.Offset, r.Danger)
}

func refuse(name string, offset int64, danger Danger) error {
	hint := "torch.load would call it: do not load this file with weights_only=False; ask for it as safetensors"
	if danger == NotListed {
		hint = "where you trust the file, load it with the program that wrote it, and save its state_dict alone"
	}
	return fault.Hint(&Refusal{Name: clean(name), Offset: offset, Danger: danger}, hint)
}

// clean bounds a name out of a file, and takes out what would obey a terminal.
func clean(name string) string {
	name = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '\ufffd'
	}, shorten(name, 200))
	return name
}

// dangers are modules, with all that lies below them, and single names. Refusals are by the list of what is allowed;
// this one only says how bad it is, and keeps such names from standing in a file even uncalled. Modules are those that
// pickle scanners (picklescan, fickling, modelscan) have on their lists, and their Python 2 names.
var dangers = map[string]Danger{}

func init() {
	for danger, names := range map[Danger]string{
		RunsCode: `os posix nt subprocess commands popen2 pty pdb bdb code codeop runpy importlib imp zipimport pkgutil
			ctypes _ctypes cffi marshal timeit _posixsubprocess trace profile cProfile pydoc doctest unittest
			distutils setuptools ensurepip venv pip site sitecustomize multiprocessing concurrent asyncio threading _thread platform
			idlelib lib2to3 pickle _pickle cPickle dill cloudpickle joblib shelve torch.hub torch.utils.cpp_extension
			torch._inductor torch._dynamo torch.utils.bottleneck torch.utils.collect_env torch.testing torch.jit
			torch.package torch.load torch.serialization numpy.f2py numpy.testing numpy.distutils numpy.load
			IPython sys ast dis webbrowser`,
		Reaches: `shutil tempfile socket _socket ssl http httplib urllib urllib2 urllib3 requests aiohttp httpx
			ftplib smtplib poplib imaplib telnetlib nntplib xmlrpc io _io fileinput linecache glob fcntl mmap
			sqlite3 zipfile tarfile signal resource gc logging getpass pwd winreg _winreg netrc`,
		Gadget: `operator _operator functools itertools types inspect builtins __builtin__ __builtins__ copyreg
			copy_reg weakref atexit contextlib`,
	} {
		for _, name := range strings.Fields(names) {
			dangers[name] = danger
		}
	}
	for _, name := range strings.Fields(`eval exec execfile compile __import__ input breakpoint help apply reload`) {
		dangers["builtins."+name] = RunsCode
	}
	for _, name := range strings.Fields(`open file print exit quit memoryview`) {
		dangers["builtins."+name] = Reaches
	}
}

// dangerOf a name: by itself, or by the module it lies in.
func dangerOf(name string) (Danger, bool) {
	for at := name; ; {
		if danger, found := dangers[at]; found {
			return danger, true
		}
		dot := strings.LastIndexByte(at, '.')
		if dot < 0 {
			return "", false
		}
		at = at[:dot]
	}
}

// renamed are modules whose pickles of other releases say another name: Python 2's, and numpy's before 2.0.
var renamed = map[string]string{
	"__builtin__": "builtins", "copy_reg": "copyreg", "UserDict": "collections", "cPickle": "pickle",
	"pathlib._local": "pathlib", // Python 3.13
}

// canonical is the name as the list has it.
func canonical(module, name string) string {
	if to, found := renamed[module]; found {
		module = to
	}
	if rest, found := strings.CutPrefix(module, "numpy.core"); found && (rest == "" || rest[0] == '.') {
		module = "numpy._core" + rest
	}
	if module == "builtins" && name == "xrange" { // protocol 2 says range so, whichever Python wrote it
		name = "range"
	}
	return module + "." + name
}

// isClass tells a class from a function as far as a name can: by its capital, as PEP 8 has it.
func isClass(name string) bool {
	last := strings.TrimLeft(name[strings.LastIndexByte(name, '.')+1:], "_")
	first, _ := utf8.DecodeRuneInString(last)
	return unicode.IsUpper(first)
}

// listed are names that every pickle may use. Functions of them make values of this package, or an Object that holds
// their arguments; a nil one may stand in a file and not be called.
var listed = map[string]func(d *Decoder, args []Value) (Value, error){}

func init() {
	for name, do := range map[string]func(d *Decoder, args []Value) (Value, error){
		"collections.OrderedDict": newDict,
		"collections.Counter":     newDict,
		"collections.defaultdict": func(d *Decoder, args []Value) (Value, error) {
			return newDict(d, args[min(1, len(args)):]) // the first makes what is missing
		},
		"builtins.dict":          newDict,
		"collections.deque":      newList,
		"builtins.list":          newList,
		"builtins.tuple":         newTuple,
		"builtins.set":           newSet,
		"builtins.frozenset":     newSet,
		"builtins.complex":       newComplex,
		"builtins.bytearray":     newBytes,
		"builtins.bytes":         newBytes,
		"builtins.int":           same,
		"builtins.float":         same,
		"builtins.str":           same,
		"builtins.bool":          same,
		"builtins.long":          same, // of Python 2, as unicode
		"builtins.unicode":       same,
		"_codecs.encode":         encode,
		"copyreg._reconstructor": reconstruct,
		"copyreg.__newobj__":     newObject,
		"builtins.object":        nil,
		"builtins.type":          nil,
		"builtins.NoneType":      nil,
		"builtins.Ellipsis":      nil,

		"numpy.dtype":                         newDType,
		"numpy._core.multiarray.scalar":       numpyScalar,
		"numpy._core.multiarray._reconstruct": numpyReconstruct,
		"numpy._core.numeric._frombuffer":     numpyFromBuffer,
		"numpy.ndarray":                       nil,
	} {
		listed[name] = do
	}
	// What trainers keep beside weights: made of plain values, kept as an Object with their arguments.
	for _, name := range strings.Fields(`builtins.slice builtins.range argparse.Namespace types.SimpleNamespace
		functools.partial re._compile datetime.datetime datetime.date datetime.time datetime.timedelta
		datetime.timezone uuid.UUID decimal.Decimal fractions.Fraction pathlib.Path pathlib.PurePath
		pathlib.PosixPath pathlib.WindowsPath pathlib.PurePosixPath pathlib.PureWindowsPath
		numpy.random._pickle.__randomstate_ctor numpy.random._pickle.__generator_ctor
		numpy.random._pickle.__bit_generator_ctor
		numpy.random.bit_generator.__pyx_unpickle_SeedSequence random.Random enum.Enum
		torch.jit._script.RecursiveScriptModule`) {
		listed[name] = func(_ *Decoder, args []Value) (Value, error) { return &Object{Class: name, Args: args}, nil }
	}
}

// same gives back a plain value, which is what a number's or a text's own type makes of it.
func same(_ *Decoder, args []Value) (Value, error) {
	if len(args) == 1 {
		switch args[0].(type) {
		case bool, int64, float64, string:
			return args[0], nil
		}
	}
	return nil, fmt.Errorf("it makes a plain value of what is none")
}

// items of an argument that is gone through once.
func items(v Value) ([]Value, bool) {
	switch v := v.(type) {
	case *List:
		return v.Items, true
	case *Tuple:
		return v.Items, true
	case *Set:
		return v.Items, true
	case *Dict:
		return v.Keys, true
	}
	return nil, false
}

// copied are the items of the first argument, none without one; each is paid for.
func copied(d *Decoder, args []Value) ([]Value, error) {
	if len(args) == 0 {
		return nil, nil
	}
	from, ok := items(args[0])
	if !ok {
		return nil, fmt.Errorf("it goes through %s", kindOf(args[0]))
	}
	if err := d.Spend(len(from)); err != nil {
		return nil, err
	}
	return append([]Value(nil), from...), nil
}

func newList(d *Decoder, args []Value) (Value, error) {
	from, err := copied(d, args)
	return &List{from}, err
}

func newTuple(d *Decoder, args []Value) (Value, error) {
	from, err := copied(d, args)
	return &Tuple{from}, err
}

func newSet(d *Decoder, args []Value) (Value, error) {
	from, err := copied(d, args)
	return &Set{from}, err
}

// newDict is that of no argument, of a dict, or of pairs.
func newDict(d *Decoder, args []Value) (Value, error) {
	made := &Dict{}
	if len(args) == 0 || args[0] == nil {
		return made, nil
	}
	if from, ok := args[0].(*Dict); ok {
		if err := d.Spend(len(from.Keys)); err != nil {
			return nil, err
		}
		for i, key := range from.Keys {
			made.Set(key, from.Values[i])
		}
		return made, nil
	}
	pairs, err := copied(d, args)
	if err != nil {
		return nil, err
	}
	for _, pair := range pairs {
		two, ok := items(pair)
		if !ok || len(two) != 2 {
			return nil, fmt.Errorf("it is made of %s where pairs belong", kindOf(pair))
		}
		made.Set(two[0], two[1])
	}
	return made, nil
}

func newComplex(_ *Decoder, args []Value) (Value, error) {
	var parts [2]float64
	for i, arg := range args[:min(2, len(args))] {
		switch arg := arg.(type) {
		case float64:
			parts[i] = arg
		case int64:
			parts[i] = float64(arg)
		default:
			return nil, fmt.Errorf("it is made of %s where numbers belong", kindOf(arg))
		}
	}
	return complex(parts[0], parts[1]), nil
}

// newBytes is that of nothing, of bytes, or of text in latin-1.
func newBytes(d *Decoder, args []Value) (Value, error) {
	if len(args) == 0 {
		return []byte{}, nil
	}
	if from, ok := args[0].([]byte); ok {
		return from, nil // bytes are never written to
	}
	return encode(d, args)
}

// encode makes bytes of text whose characters stand for one each, as protocols before 3 keep bytes.
func encode(d *Decoder, args []Value) (Value, error) {
	from, ok := any(nil), len(args) > 0
	if ok {
		from = args[0]
	}
	s, ok := from.(string)
	if !ok || len(args) > 1 && args[1] != "latin1" && args[1] != "latin-1" {
		return nil, fmt.Errorf("it makes bytes of %s", kindOf(from))
	}
	if err := d.SpendBytes(int64(len(s))); err != nil {
		return nil, err
	}
	made := make([]byte, 0, len(s))
	for _, r := range s {
		if r > 0xff {
			return nil, fmt.Errorf("it makes bytes of text that is not latin-1")
		}
		made = append(made, byte(r))
	}
	return made, nil
}

// reconstruct is copyreg's: an object of a class, made by its base of a value.
func reconstruct(d *Decoder, args []Value) (Value, error) {
	if len(args) != 3 {
		return nil, fmt.Errorf("it has %d arguments where it takes 3", len(args))
	}
	made, err := newObject(d, args[:1])
	if err != nil || args[2] == nil {
		return made, err
	}
	if object, ok := made.(*Object); ok {
		object.Args = args[2:]
	}
	return made, nil
}

// newObject is the first argument's __new__ with the others.
func newObject(d *Decoder, args []Value) (Value, error) {
	if len(args) == 0 {
		return nil, fmt.Errorf("it has no class to make an object of")
	}
	return d.newOf(args[0], args[1:])
}
