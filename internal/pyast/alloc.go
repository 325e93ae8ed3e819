package pyast

// slab hands out values from blocks, so that a node costs no allocation of its own. Blocks belong to one file: one that
// went on to the next would keep the trees of both as long as either is used, and so those of all files ever read. They
// start small, for small files. Where no tree is wanted (Options.ErrorsOnly), the last block goes on to the next file.
type slab[T any] struct {
	free  []T
	block []T // that free is the rest of
	size  int // of the last block
	most  int // beyond slabSize
}

// Values in a block: of a tree that is kept, and of one that is not.
const (
	slabSize  = 128
	scrapSize = 4096
)

// again gives out the last block from its start.
func (s *slab[T]) again() {
	s.most = scrapSize - slabSize
	clear(s.block[:len(s.block)-len(s.free)])
	s.free = s.block
}

func (s *slab[T]) new() *T {
	if len(s.free) == 0 {
		s.size = min(max(4, 2*s.size), slabSize+s.most)
		s.block = make([]T, s.size)
		s.free = s.block
	}
	x := &s.free[0]
	s.free = s.free[1:]
	return x
}

// keep copies a scratch list into a block.
func (s *slab[T]) keep(list []T) []T {
	n := len(list)
	if n == 0 {
		return nil
	}
	if n > len(s.free) {
		if n > slabSize {
			return append([]T(nil), list...)
		}
		s.size = min(max(16, 2*s.size, n), 4*slabSize+s.most)
		s.block = make([]T, s.size)
		s.free = s.block
	}
	out := s.free[:n:n]
	copy(out, list)
	s.free = s.free[n:]
	return out
}

// alloc holds a slab for each common node, and for lists of them. Rare nodes are allocated by themselves.
type alloc struct {
	nameNodes     slab[Name]
	attributes    slab[Attribute]
	calls         slab[Call]
	constants     slab[Constant]
	subscripts    slab[Subscript]
	tuples        slab[Tuple]
	lists         slab[List]
	dicts         slab[Dict]
	binOps        slab[BinOp]
	boolOps       slab[BoolOp]
	unaryOps      slab[UnaryOp]
	compares      slab[Compare]
	ifExps        slab[IfExp]
	slices        slab[Slice]
	starreds      slab[Starred]
	listComps     slab[ListComp]
	genExps       slab[GeneratorExp]
	comprehension slab[Comprehension]
	joinedStrs    slab[JoinedStr]
	formatted     slab[FormattedValue]
	keywordNodes  slab[Keyword]
	argNodes      slab[Arg]
	argumentNodes slab[Arguments]
	aliasNodes    slab[Alias]
	withItems     slab[WithItem]
	handlerNodes  slab[ExceptHandler]

	exprStmts   slab[ExprStmt]
	assigns     slab[Assign]
	augAssigns  slab[AugAssign]
	annAssigns  slab[AnnAssign]
	returns     slab[Return]
	raises      slab[Raise]
	asserts     slab[Assert]
	passes      slab[Pass]
	breaks      slab[Break]
	continues   slab[Continue]
	ifs         slab[If]
	fors        slab[For]
	withs       slab[With]
	tries       slab[Try]
	functions   slab[FunctionDef]
	classes     slab[ClassDef]
	imports     slab[Import]
	fromImports slab[ImportFrom]
	bads        slab[Bad]

	exprLists    slab[Expr]
	stmtLists    slab[Stmt]
	keywordLists slab[*Keyword]
	argLists     slab[*Arg]
	aliasLists   slab[*Alias]
	compLists    slab[*Comprehension]
	itemLists    slab[*WithItem]
	handlerLists slab[*ExceptHandler]
	nameLists    slab[string]
	opLists      slab[Op]
}

// again makes all blocks free for another file.
func (a *alloc) again() {
	a.nameNodes.again()
	a.attributes.again()
	a.calls.again()
	a.constants.again()
	a.subscripts.again()
	a.tuples.again()
	a.lists.again()
	a.dicts.again()
	a.binOps.again()
	a.boolOps.again()
	a.unaryOps.again()
	a.compares.again()
	a.ifExps.again()
	a.slices.again()
	a.starreds.again()
	a.listComps.again()
	a.genExps.again()
	a.comprehension.again()
	a.joinedStrs.again()
	a.formatted.again()
	a.keywordNodes.again()
	a.argNodes.again()
	a.argumentNodes.again()
	a.aliasNodes.again()
	a.withItems.again()
	a.handlerNodes.again()
	a.exprStmts.again()
	a.assigns.again()
	a.augAssigns.again()
	a.annAssigns.again()
	a.returns.again()
	a.raises.again()
	a.asserts.again()
	a.passes.again()
	a.breaks.again()
	a.continues.again()
	a.ifs.again()
	a.fors.again()
	a.withs.again()
	a.tries.again()
	a.functions.again()
	a.classes.again()
	a.imports.again()
	a.fromImports.again()
	a.bads.again()
	a.exprLists.again()
	a.stmtLists.again()
	a.keywordLists.again()
	a.argLists.again()
	a.aliasLists.again()
	a.compLists.again()
	a.itemLists.again()
	a.handlerLists.again()
	a.nameLists.again()
	a.opLists.again()
}

func (p *parser) takeExprs(mark int) []Expr {
	out := p.exprLists.keep(p.exprs[mark:])
	p.exprs = p.exprs[:mark]
	return out
}

func (p *parser) takeStmts(mark int) []Stmt {
	out := p.stmtLists.keep(p.stmts[mark:])
	p.stmts = p.stmts[:mark]
	return out
}

func (p *parser) oneStmt(s Stmt) []Stmt {
	p.stmts = append(p.stmts, s)
	return p.takeStmts(len(p.stmts) - 1)
}

func (p *parser) takeKeywords(mark int) []*Keyword {
	out := p.keywordLists.keep(p.keywords[mark:])
	p.keywords = p.keywords[:mark]
	return out
}

func (p *parser) takeArgs(mark int) []*Arg {
	out := p.argLists.keep(p.args[mark:])
	p.args = p.args[:mark]
	return out
}

func (p *parser) takeAliases(mark int) []*Alias {
	out := p.aliasLists.keep(p.aliases[mark:])
	p.aliases = p.aliases[:mark]
	return out
}

func (p *parser) takeComps(mark int) []*Comprehension {
	out := p.compLists.keep(p.comps[mark:])
	p.comps = p.comps[:mark]
	return out
}

func (p *parser) takeItems(mark int) []*WithItem {
	out := p.itemLists.keep(p.items[mark:])
	p.items = p.items[:mark]
	return out
}

func (p *parser) takeHandlers(mark int) []*ExceptHandler {
	out := p.handlerLists.keep(p.handlers[mark:])
	p.handlers = p.handlers[:mark]
	return out
}

func (p *parser) takeNames(mark int) []string {
	out := p.nameLists.keep(p.names[mark:])
	p.names = p.names[:mark]
	return out
}

func (p *parser) takeOps(mark int) []Op {
	out := p.opLists.keep(p.ops[mark:])
	p.ops = p.ops[:mark]
	return out
}
