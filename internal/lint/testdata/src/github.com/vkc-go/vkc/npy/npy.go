package npy // want package:" 1 packages"
