"""What a module of a model holds. Asks attributes, since methods may be the script's own."""


def tensors_in(module, *tables):
    """What a module and those below it hold under these names (_parameters, _buffers), each module once, those above first."""
    todo, seen = [module], set()
    while todo:
        values = todo.pop(0).__dict__
        if id(values) in seen:
            continue
        seen.add(id(values))
        for table in tables:
            yield from (tensor for tensor in values.get(table, {}).values() if tensor is not None)
        todo += [m for m in values.get("_modules", {}).values() if m is not None]
