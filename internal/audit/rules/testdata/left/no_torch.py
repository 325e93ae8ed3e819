import multiprocessing

multiprocessing.set_start_method("fork")
