// Package pyast reads Python source, from 3.8 to 3.14, into the trees that CPython's ast module gives: nodes and their
// fields have the same names, positions are the same. What CPython 3.14's ast.parse rejects is an error here, too. What
// only its compiler rejects (return outside a function) is not.
//
//	file := pyast.Parse(src, pyast.Options{})
//	scopes := pyast.NewScopes(file, "project.module")
//	file.Walk(func(n pyast.Node) bool {
//		if call, ok := n.(*pyast.Call); ok && scopes.Path(call.Func) == "torch.nn.functional.conv2d" {
//			line, column := file.Position(call.Pos())
//			...
//
// # Trees
//
// A node's range is its embedded Span: bytes of File.Text, which is the source given unless that declares another
// encoding than UTF-8. File.Position turns an offset into CPython's line and column. Two classes of CPython are one
// here where they differ by a word: FunctionDef, For, With and Comprehension have Async, Try has Star, TypeParam says
// by Stars which of the three it is; Kind tells them apart. CPython's Expr is ExprStmt. Names of fields are written as
// Go writes them: DecoratorList. Constants keep their source and are decoded when asked: StringValue, IntValue,
// FloatValue.
//
// # Errors
//
// There is always a tree. A statement that cannot be read becomes Bad, which holds those statements inside it that can;
// what follows is read as if nothing had been. File.Errors lists what is wrong, in order; File.Err is nil for a source
// that CPython takes. A bracket that is never closed ends with its line, and the file is read on from there.
//
// # How it works
//
// token.go makes one pass over the bytes and leaves a list of tokens, comments and line starts. It knows indentation,
// brackets and the modes of f-strings, and never stops. parse.go (statements), expr.go and pattern.go descend over that
// list, with precedence climbing for operators and a look ahead, never a memo, where the grammar needs one: match, with
// and its brackets, keyword arguments. Assignment targets are read as expressions and checked afterwards. Nodes and
// lists are cut from blocks (alloc.go), those of each file its own; names are pieces of the source.
//
// Recursion is bounded (maxDepth), and so are chains like a + a + a + … (maxChain) and the list of errors. Nothing is
// read twice, but for the brackets of with, and for what an unclosed bracket had swallowed, which is read again at most
// maxReread times a file.
//
// Parse may be called by many goroutines at once. NewScopes writes into the tree, and wants one at a time for a file.
package pyast
