package abstract

import "assay/internal/pyast"

// New makes an interpreter of the file at an absolute path, whose tree is given.
func New(world *World, watch *Watch, memo *Memo, path string, tree *pyast.File) *Interp {
	in := &Interp{world: world, watch: watch, memo: memo, modules: map[string]*Unit{}, imported: map[string]bool{},
		defaultType: "float32", numbers: map[any]uint32{}}
	in.recurse.expr, in.recurse.body = in.eval, in.block
	in.main = newUnit(path)
	in.main.File = tree
	in.modules[path] = in.main
	in.unit = in.main
	return in
}

// Run interprets the file: its top, then each function that nothing called.
func (in *Interp) Run() {
	m := in.main
	m.env = &env{}
	m.env.put("__name__", text("__main__"))
	m.env.put("__file__", &Value{Kind: Str, Soft: true})
	top := context{unit: m, env: m.env}
	in.context = top
	in.block(m.File.Body)
	device, dtype := in.defaultDevice, in.defaultType
	for i := 0; i < len(m.order); i++ { // functions that are met on the way are appended
		f := m.order[i]
		if f.called || f.Node == nil {
			continue
		}
		in.defaultDevice, in.defaultType = device, dtype
		in.context = top
		in.lone = true
		in.alone(f)
	}
	in.context = top
}
