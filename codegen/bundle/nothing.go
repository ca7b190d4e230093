package bundle

import "errors"

// errNoFile is the error of the methods of a nil File.
var errNoFile = errors.New("vkb: there is no bundle: Open and Read make one, unless they return an error")

// content returns f, or an empty file if f is nil.
func (f *File) content() *File {
	if f == nil {
		return &File{}
	}
	return f
}
