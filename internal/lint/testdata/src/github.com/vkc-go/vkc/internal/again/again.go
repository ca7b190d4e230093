package again // want package:" 0 packages"
