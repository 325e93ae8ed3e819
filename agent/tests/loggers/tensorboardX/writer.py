"""The shape of tensorboardX.writer 2.6, and of torch.utils.tensorboard.writer: a summary is what is written."""


class _Summary:
    def __init__(self, tag, number):
        self.value = [_Value(tag, number)]


class _Value:
    def __init__(self, tag, number):
        self.tag, self.simple_value = tag, number

    def WhichOneof(self, what):
        return "simple_value"


class FileWriter:
    def add_summary(self, summary, global_step=None, walltime=None):
        print("written", summary.value[0].tag, summary.value[0].simple_value, global_step)


class SummaryWriter:
    def add_scalar(self, tag, scalar_value, global_step=None, walltime=None):
        FileWriter().add_summary(_Summary(tag, float(scalar_value)), global_step, walltime)

    def add_scalars(self, main_tag, tag_scalar_dict, global_step=None, walltime=None):
        for scalar_value in tag_scalar_dict.values():
            FileWriter().add_summary(_Summary(main_tag, float(scalar_value)), global_step, walltime)
