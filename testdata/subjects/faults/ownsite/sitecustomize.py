"""The script's own."""
import builtins

builtins.own_site = "own"
