"""The commands that the study adds to `eree`: the entry points `eree.commands` name them."""
