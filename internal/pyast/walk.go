package pyast

// Walk calls visit for a node and, where visit is true, for what is below it, in the order of the source but for
// decorators, which come first, and a comprehension's element, which comes before its clauses.
func Walk(n Node, visit func(Node) bool) {
	var walk func(Node)
	walk = func(n Node) {
		if visit(n) {
			Children(n, walk)
		}
	}
	if n != nil {
		walk(n)
	}
}

// Walk walks every statement of the file.
func (f *File) Walk(visit func(Node) bool) { each(f.Body, func(n Node) { Walk(n, visit) }) }

func each[T Node](list []T, visit func(Node)) {
	for _, n := range list {
		visit(n)
	}
}

// Children calls visit for each node directly below n.
func Children(n Node, visit func(Node)) {
	one := func(e Expr) {
		if e != nil {
			visit(e)
		}
	}
	exprs := func(list []Expr) {
		for _, e := range list {
			one(e)
		}
	}
	switch n := n.(type) {
	case *BoolOp:
		exprs(n.Values)
	case *NamedExpr:
		visit(n.Target)
		one(n.Value)
	case *BinOp:
		one(n.Left)
		one(n.Right)
	case *UnaryOp:
		one(n.Operand)
	case *Lambda:
		visit(n.Args)
		one(n.Body)
	case *IfExp:
		one(n.Body)
		one(n.Test)
		one(n.Orelse)
	case *Dict:
		for i, v := range n.Values {
			one(n.Keys[i])
			one(v)
		}
	case *Set:
		exprs(n.Elts)
	case *ListComp:
		one(n.Elt)
		each(n.Generators, visit)
	case *SetComp:
		one(n.Elt)
		each(n.Generators, visit)
	case *DictComp:
		one(n.Key)
		one(n.Value)
		each(n.Generators, visit)
	case *GeneratorExp:
		one(n.Elt)
		each(n.Generators, visit)
	case *Await:
		one(n.Value)
	case *Yield:
		one(n.Value)
	case *YieldFrom:
		one(n.Value)
	case *Compare:
		one(n.Left)
		exprs(n.Comparators)
	case *Call:
		one(n.Func)
		exprs(n.Args)
		each(n.Keywords, visit)
	case *FormattedValue:
		one(n.Value)
		if n.FormatSpec != nil {
			visit(n.FormatSpec)
		}
	case *Interpolation:
		one(n.Value)
		if n.FormatSpec != nil {
			visit(n.FormatSpec)
		}
	case *JoinedStr:
		exprs(n.Values)
	case *TemplateStr:
		exprs(n.Values)
	case *Attribute:
		one(n.Value)
	case *Subscript:
		one(n.Value)
		one(n.Slice)
	case *Starred:
		one(n.Value)
	case *List:
		exprs(n.Elts)
	case *Tuple:
		exprs(n.Elts)
	case *Slice:
		one(n.Lower)
		one(n.Upper)
		one(n.Step)
	case *FunctionDef:
		exprs(n.DecoratorList)
		each(n.TypeParams, visit)
		visit(n.Args)
		one(n.Returns)
		each(n.Body, visit)
	case *ClassDef:
		exprs(n.DecoratorList)
		each(n.TypeParams, visit)
		exprs(n.Bases)
		each(n.Keywords, visit)
		each(n.Body, visit)
	case *Return:
		one(n.Value)
	case *Delete:
		exprs(n.Targets)
	case *Assign:
		exprs(n.Targets)
		one(n.Value)
	case *TypeAlias:
		visit(n.Name)
		each(n.TypeParams, visit)
		one(n.Value)
	case *AugAssign:
		one(n.Target)
		one(n.Value)
	case *AnnAssign:
		one(n.Target)
		one(n.Annotation)
		one(n.Value)
	case *For:
		one(n.Target)
		one(n.Iter)
		each(n.Body, visit)
		each(n.Orelse, visit)
	case *While:
		one(n.Test)
		each(n.Body, visit)
		each(n.Orelse, visit)
	case *If:
		one(n.Test)
		each(n.Body, visit)
		each(n.Orelse, visit)
	case *With:
		each(n.Items, visit)
		each(n.Body, visit)
	case *Match:
		one(n.Subject)
		each(n.Cases, visit)
	case *Raise:
		one(n.Exc)
		one(n.Cause)
	case *Try:
		each(n.Body, visit)
		each(n.Handlers, visit)
		each(n.Orelse, visit)
		each(n.Finalbody, visit)
	case *Assert:
		one(n.Test)
		one(n.Msg)
	case *Import:
		each(n.Names, visit)
	case *ImportFrom:
		each(n.Names, visit)
	case *ExprStmt:
		one(n.Value)
	case *Bad:
		each(n.Body, visit)
	case *Comprehension:
		one(n.Target)
		one(n.Iter)
		exprs(n.Ifs)
	case *ExceptHandler:
		one(n.Type)
		each(n.Body, visit)
	case *Arguments:
		n.each(func(a *Arg, value Expr) {
			visit(a)
			one(value)
		})
	case *Arg:
		one(n.Annotation)
	case *Keyword:
		one(n.Value)
	case *WithItem:
		one(n.ContextExpr)
		one(n.OptionalVars)
	case *MatchCase:
		visit(n.Pattern)
		one(n.Guard)
		each(n.Body, visit)
	case *TypeParam:
		one(n.Bound)
		one(n.DefaultValue)
	case *MatchValue:
		one(n.Value)
	case *MatchSequence:
		each(n.Patterns, visit)
	case *MatchMapping:
		for i, p := range n.Patterns {
			one(n.Keys[i])
			visit(p)
		}
	case *MatchClass:
		one(n.Cls)
		each(n.Patterns, visit)
		each(n.KwdPatterns, visit)
	case *MatchAs:
		if n.Pattern != nil {
			visit(n.Pattern)
		}
	case *MatchOr:
		each(n.Patterns, visit)
	}
}

// each calls f for every parameter with its default, in the order of the source.
func (a *Arguments) each(f func(arg *Arg, value Expr)) {
	none := len(a.Posonlyargs) + len(a.Args) - len(a.Defaults)
	value := func(i int) Expr {
		if i < none {
			return nil
		}
		return a.Defaults[i-none]
	}
	for i, x := range a.Posonlyargs {
		f(x, value(i))
	}
	for i, x := range a.Args {
		f(x, value(len(a.Posonlyargs)+i))
	}
	if a.Vararg != nil {
		f(a.Vararg, nil)
	}
	for i, x := range a.Kwonlyargs {
		f(x, a.KwDefaults[i])
	}
	if a.Kwarg != nil {
		f(a.Kwarg, nil)
	}
}

// All is every parameter with its default, or nil, in the order of the source.
func (a *Arguments) All(yield func(arg *Arg, value Expr) bool) {
	more := true
	a.each(func(arg *Arg, value Expr) {
		if more {
			more = yield(arg, value)
		}
	})
}
