package main

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"assay/internal/atlas"
)

// operatorList is the path of the operator list that a torch wheel packs for its own code generator.
const operatorList = "torchgen/packaged/ATen/native/native_functions.yaml"

// A kernel's dispatch keys that matter here.
const (
	keyMPS           = "MPS"
	keySparse        = "SparseMPS"
	keySparseCsr     = "SparseCsrMPS"
	keyImplicit      = "CompositeImplicitAutograd"
	keyExplicit      = "CompositeExplicitAutograd"
	keyNonFunctional = "CompositeExplicitAutogradNonFunctional"
)

// keys is the set of dispatch keys under which one operator overload has a kernel; only those above are kept.
type keys map[string]bool

// operators maps an overload, without namespace (add.Tensor), to its kernels.
type operators map[string]keys

// state says how an overload is carried out on MPS. byHand holds what registrations beyond an ordinary kernel mean.
func (ops operators) state(overload string, byHand map[string]atlas.State) atlas.State {
	ks, defined := ops[overload]
	switch s, special := byHand[overload]; {
	case !defined:
		return atlas.Undefined
	case ks[keyMPS] && special:
		return s
	case ks[keyMPS]:
		return atlas.Native
	case ks[keyImplicit] || ks[keyExplicit] || ks[keyNonFunctional]:
		return atlas.Composed
	}
	return atlas.Missing
}

func (ks keys) add(key string) {
	switch key {
	case keyMPS, keySparse, keySparseCsr, keyImplicit, keyExplicit, keyNonFunctional:
		ks[key] = true
	}
}

// listedFunction is one entry of the operator list, as far as it says who has a kernel.
type listedFunction struct {
	Func     string    `yaml:"func"`
	Dispatch yaml.Node `yaml:"dispatch"`
	Delegate string    `yaml:"structured_delegate"`
	Autogen  string    `yaml:"autogen"`
}

// bare says that an overload has no kernel but a generated CompositeExplicitAutogradNonFunctional one.
func (ops operators) bare(overload string) bool {
	return len(ops[overload]) == 1 && ops[overload][keyNonFunctional]
}

// generated says how an operator's kernel is made by PyTorch's code generator.
type generated struct {
	// structured: it allocates the result and calls the out variant; autogen: it copies to or from the result of the
	// other
	how    string
	around string
}

// parseOperatorList reads which operators there are and under which keys each has a kernel, by the rules of PyTorch's
// code generator (torchgen/model.py, torchgen/native_function_generation.py):
//
//   - an entry without a dispatch table, and without a delegate, is CompositeImplicitAutograd;
//   - a key of the table may be a list, "CPU, CUDA, MPS";
//   - a structured_delegate takes the table of the entry that it names; the generated functional and in-place variant has also
//     a CompositeExplicitAutogradNonFunctional kernel, which allocates the result and calls the out variant;
//   - each name under autogen is generated as CompositeExplicitAutograd.
//
// made says of each operator that is generated around another what it is and around which.
func parseOperatorList(text []byte) (ops operators, made map[string]generated, err error) {
	var list []listedFunction
	if err := yaml.Unmarshal(text, &list); err != nil {
		return nil, nil, fmt.Errorf("parse %s: %w", operatorList, err)
	}
	byName := map[string]listedFunction{}
	for _, f := range list {
		name, _, ok := strings.Cut(f.Func, "(")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, nil, fmt.Errorf("parse %s: entry %q is no schema", operatorList, f.Func)
		}
		if _, twice := byName[name]; twice {
			return nil, nil, fmt.Errorf("parse %s: %s stands twice in it", operatorList, name)
		}
		byName[name] = f
	}
	ops, made = operators{}, map[string]generated{}
	for name, f := range byName {
		ks := keys{}
		tables := []yaml.Node{f.Dispatch}
		if f.Delegate != "" {
			to, ok := byName[strings.TrimSpace(f.Delegate)]
			if !ok {
				return nil, nil, fmt.Errorf("parse %s: %s delegates to %s, which is not there", operatorList, name,
					f.Delegate)
			}
			tables = append(tables, to.Dispatch)
			made[name] = generated{"structured", strings.TrimSpace(f.Delegate)}
			ks[keyNonFunctional] = true
		} else if f.Dispatch.IsZero() { // "dispatch: {}" is something else: no kernel at all
			ks[keyImplicit] = true
		}
		for _, node := range tables {
			table := map[string]string{}
			if err := node.Decode(&table); err != nil {
				return nil, nil, fmt.Errorf("parse %s: dispatch of %s: %w", operatorList, name, err)
			}
			for list := range table {
				for key := range strings.SplitSeq(list, ",") {
					ks.add(strings.TrimSpace(key))
				}
			}
		}
		ops[name] = ks
		for variant := range strings.SplitSeq(f.Autogen, ",") {
			if variant = strings.TrimSpace(variant); variant != "" {
				ops[variant] = keys{keyExplicit: true}
				made[variant] = generated{"autogen", name}
			}
		}
	}
	return ops, made, nil
}
