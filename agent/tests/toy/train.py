import toy

batches, line = toy.Batches(15), toy.Line()
for _ in range(3):
    for batch in batches:
        line.descend(batch)
        line.update(0.05)
    toy.synchronize()
print(line.slope.hex())
