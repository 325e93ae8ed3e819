second_star = 2
