package pyast

// Kind is the class of a node.
type Kind uint8

const (
	NoKind Kind = iota
	KindBoolOp
	KindNamedExpr
	KindBinOp
	KindUnaryOp
	KindLambda
	KindIfExp
	KindDict
	KindSet
	KindListComp
	KindSetComp
	KindDictComp
	KindGeneratorExp
	KindAwait
	KindYield
	KindYieldFrom
	KindCompare
	KindCall
	KindFormattedValue
	KindInterpolation
	KindJoinedStr
	KindTemplateStr
	KindAttribute
	KindSubscript
	KindStarred
	KindName
	KindList
	KindTuple
	KindSlice
	KindBadExpr
	KindConstant
	KindFunctionDef
	KindAsyncFunctionDef
	KindClassDef
	KindReturn
	KindDelete
	KindAssign
	KindTypeAlias
	KindAugAssign
	KindAnnAssign
	KindFor
	KindAsyncFor
	KindWhile
	KindIf
	KindWith
	KindAsyncWith
	KindMatch
	KindRaise
	KindTry
	KindTryStar
	KindAssert
	KindImport
	KindImportFrom
	KindGlobal
	KindNonlocal
	KindExprStmt
	KindPass
	KindBreak
	KindContinue
	KindBad
	KindComprehension
	KindExceptHandler
	KindArguments
	KindArg
	KindKeyword
	KindAlias
	KindWithItem
	KindMatchCase
	KindTypeVar
	KindTypeVarTuple
	KindParamSpec
	KindMatchValue
	KindMatchSingleton
	KindMatchSequence
	KindMatchMapping
	KindMatchClass
	KindMatchStar
	KindMatchAs
	KindMatchOr

	kindCount
)

var kindNames = [kindCount]string{
	KindBoolOp:           "BoolOp",
	KindNamedExpr:        "NamedExpr",
	KindBinOp:            "BinOp",
	KindUnaryOp:          "UnaryOp",
	KindLambda:           "Lambda",
	KindIfExp:            "IfExp",
	KindDict:             "Dict",
	KindSet:              "Set",
	KindListComp:         "ListComp",
	KindSetComp:          "SetComp",
	KindDictComp:         "DictComp",
	KindGeneratorExp:     "GeneratorExp",
	KindAwait:            "Await",
	KindYield:            "Yield",
	KindYieldFrom:        "YieldFrom",
	KindCompare:          "Compare",
	KindCall:             "Call",
	KindFormattedValue:   "FormattedValue",
	KindInterpolation:    "Interpolation",
	KindJoinedStr:        "JoinedStr",
	KindTemplateStr:      "TemplateStr",
	KindAttribute:        "Attribute",
	KindSubscript:        "Subscript",
	KindStarred:          "Starred",
	KindName:             "Name",
	KindList:             "List",
	KindTuple:            "Tuple",
	KindSlice:            "Slice",
	KindBadExpr:          "BadExpr",
	KindConstant:         "Constant",
	KindFunctionDef:      "FunctionDef",
	KindAsyncFunctionDef: "AsyncFunctionDef",
	KindClassDef:         "ClassDef",
	KindReturn:           "Return",
	KindDelete:           "Delete",
	KindAssign:           "Assign",
	KindTypeAlias:        "TypeAlias",
	KindAugAssign:        "AugAssign",
	KindAnnAssign:        "AnnAssign",
	KindFor:              "For",
	KindAsyncFor:         "AsyncFor",
	KindWhile:            "While",
	KindIf:               "If",
	KindWith:             "With",
	KindAsyncWith:        "AsyncWith",
	KindMatch:            "Match",
	KindRaise:            "Raise",
	KindTry:              "Try",
	KindTryStar:          "TryStar",
	KindAssert:           "Assert",
	KindImport:           "Import",
	KindImportFrom:       "ImportFrom",
	KindGlobal:           "Global",
	KindNonlocal:         "Nonlocal",
	KindExprStmt:         "Expr",
	KindPass:             "Pass",
	KindBreak:            "Break",
	KindContinue:         "Continue",
	KindBad:              "Bad",
	KindComprehension:    "comprehension",
	KindExceptHandler:    "ExceptHandler",
	KindArguments:        "arguments",
	KindArg:              "arg",
	KindKeyword:          "keyword",
	KindAlias:            "alias",
	KindWithItem:         "withitem",
	KindMatchCase:        "match_case",
	KindTypeVar:          "TypeVar",
	KindTypeVarTuple:     "TypeVarTuple",
	KindParamSpec:        "ParamSpec",
	KindMatchValue:       "MatchValue",
	KindMatchSingleton:   "MatchSingleton",
	KindMatchSequence:    "MatchSequence",
	KindMatchMapping:     "MatchMapping",
	KindMatchClass:       "MatchClass",
	KindMatchStar:        "MatchStar",
	KindMatchAs:          "MatchAs",
	KindMatchOr:          "MatchOr",
}

// String is the name of CPython's class.
func (k Kind) String() string { return kindNames[k] }

func (*BoolOp) Kind() Kind         { return KindBoolOp }
func (*BoolOp) expr()              {}
func (*NamedExpr) Kind() Kind      { return KindNamedExpr }
func (*NamedExpr) expr()           {}
func (*BinOp) Kind() Kind          { return KindBinOp }
func (*BinOp) expr()               {}
func (*UnaryOp) Kind() Kind        { return KindUnaryOp }
func (*UnaryOp) expr()             {}
func (*Lambda) Kind() Kind         { return KindLambda }
func (*Lambda) expr()              {}
func (*IfExp) Kind() Kind          { return KindIfExp }
func (*IfExp) expr()               {}
func (*Dict) Kind() Kind           { return KindDict }
func (*Dict) expr()                {}
func (*Set) Kind() Kind            { return KindSet }
func (*Set) expr()                 {}
func (*ListComp) Kind() Kind       { return KindListComp }
func (*ListComp) expr()            {}
func (*SetComp) Kind() Kind        { return KindSetComp }
func (*SetComp) expr()             {}
func (*DictComp) Kind() Kind       { return KindDictComp }
func (*DictComp) expr()            {}
func (*GeneratorExp) Kind() Kind   { return KindGeneratorExp }
func (*GeneratorExp) expr()        {}
func (*Await) Kind() Kind          { return KindAwait }
func (*Await) expr()               {}
func (*Yield) Kind() Kind          { return KindYield }
func (*Yield) expr()               {}
func (*YieldFrom) Kind() Kind      { return KindYieldFrom }
func (*YieldFrom) expr()           {}
func (*Compare) Kind() Kind        { return KindCompare }
func (*Compare) expr()             {}
func (*Call) Kind() Kind           { return KindCall }
func (*Call) expr()                {}
func (*FormattedValue) Kind() Kind { return KindFormattedValue }
func (*FormattedValue) expr()      {}
func (*Interpolation) Kind() Kind  { return KindInterpolation }
func (*Interpolation) expr()       {}
func (*JoinedStr) Kind() Kind      { return KindJoinedStr }
func (*JoinedStr) expr()           {}
func (*TemplateStr) Kind() Kind    { return KindTemplateStr }
func (*TemplateStr) expr()         {}
func (*Attribute) Kind() Kind      { return KindAttribute }
func (*Attribute) expr()           {}
func (*Subscript) Kind() Kind      { return KindSubscript }
func (*Subscript) expr()           {}
func (*Starred) Kind() Kind        { return KindStarred }
func (*Starred) expr()             {}
func (*Name) Kind() Kind           { return KindName }
func (*Name) expr()                {}
func (*List) Kind() Kind           { return KindList }
func (*List) expr()                {}
func (*Tuple) Kind() Kind          { return KindTuple }
func (*Tuple) expr()               {}
func (*Slice) Kind() Kind          { return KindSlice }
func (*Slice) expr()               {}
func (*BadExpr) Kind() Kind        { return KindBadExpr }
func (*BadExpr) expr()             {}

func (n *FunctionDef) Kind() Kind {
	if n.Async {
		return KindAsyncFunctionDef
	}
	return KindFunctionDef
}
func (*FunctionDef) stmt()    {}
func (*ClassDef) Kind() Kind  { return KindClassDef }
func (*ClassDef) stmt()       {}
func (*Return) Kind() Kind    { return KindReturn }
func (*Return) stmt()         {}
func (*Delete) Kind() Kind    { return KindDelete }
func (*Delete) stmt()         {}
func (*Assign) Kind() Kind    { return KindAssign }
func (*Assign) stmt()         {}
func (*TypeAlias) Kind() Kind { return KindTypeAlias }
func (*TypeAlias) stmt()      {}
func (*AugAssign) Kind() Kind { return KindAugAssign }
func (*AugAssign) stmt()      {}
func (*AnnAssign) Kind() Kind { return KindAnnAssign }
func (*AnnAssign) stmt()      {}
func (n *For) Kind() Kind {
	if n.Async {
		return KindAsyncFor
	}
	return KindFor
}
func (*For) stmt()        {}
func (*While) Kind() Kind { return KindWhile }
func (*While) stmt()      {}
func (*If) Kind() Kind    { return KindIf }
func (*If) stmt()         {}
func (n *With) Kind() Kind {
	if n.Async {
		return KindAsyncWith
	}
	return KindWith
}
func (*With) stmt()       {}
func (*Match) Kind() Kind { return KindMatch }
func (*Match) stmt()      {}
func (*Raise) Kind() Kind { return KindRaise }
func (*Raise) stmt()      {}
func (n *Try) Kind() Kind {
	if n.Star {
		return KindTryStar
	}
	return KindTry
}
func (*Try) stmt()                 {}
func (*Assert) Kind() Kind         { return KindAssert }
func (*Assert) stmt()              {}
func (*Import) Kind() Kind         { return KindImport }
func (*Import) stmt()              {}
func (*ImportFrom) Kind() Kind     { return KindImportFrom }
func (*ImportFrom) stmt()          {}
func (*Global) Kind() Kind         { return KindGlobal }
func (*Global) stmt()              {}
func (*Nonlocal) Kind() Kind       { return KindNonlocal }
func (*Nonlocal) stmt()            {}
func (*ExprStmt) Kind() Kind       { return KindExprStmt }
func (*ExprStmt) stmt()            {}
func (*Pass) Kind() Kind           { return KindPass }
func (*Pass) stmt()                {}
func (*Break) Kind() Kind          { return KindBreak }
func (*Break) stmt()               {}
func (*Continue) Kind() Kind       { return KindContinue }
func (*Continue) stmt()            {}
func (*Bad) Kind() Kind            { return KindBad }
func (*Bad) stmt()                 {}
func (*Comprehension) Kind() Kind  { return KindComprehension }
func (*ExceptHandler) Kind() Kind  { return KindExceptHandler }
func (*Arguments) Kind() Kind      { return KindArguments }
func (*Arg) Kind() Kind            { return KindArg }
func (*Keyword) Kind() Kind        { return KindKeyword }
func (*Alias) Kind() Kind          { return KindAlias }
func (*WithItem) Kind() Kind       { return KindWithItem }
func (*MatchCase) Kind() Kind      { return KindMatchCase }
func (n *TypeParam) Kind() Kind    { return KindTypeVar + Kind(n.Stars) }
func (*MatchValue) Kind() Kind     { return KindMatchValue }
func (*MatchValue) pattern()       {}
func (*MatchSingleton) Kind() Kind { return KindMatchSingleton }
func (*MatchSingleton) pattern()   {}
func (*MatchSequence) Kind() Kind  { return KindMatchSequence }
func (*MatchSequence) pattern()    {}
func (*MatchMapping) Kind() Kind   { return KindMatchMapping }
func (*MatchMapping) pattern()     {}
func (*MatchClass) Kind() Kind     { return KindMatchClass }
func (*MatchClass) pattern()       {}
func (*MatchStar) Kind() Kind      { return KindMatchStar }
func (*MatchStar) pattern()        {}
func (*MatchAs) Kind() Kind        { return KindMatchAs }
func (*MatchAs) pattern()          {}
func (*MatchOr) Kind() Kind        { return KindMatchOr }
func (*MatchOr) pattern()          {}
