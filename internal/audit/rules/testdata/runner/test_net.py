# A program that evaluates a network.
import torch


def main():
    torch.nn.Linear(3, 3).cuda()  # sure: cuda-call


if __name__ == "__main__":
    main()
