package bundle

import "errors"

// errNoFile is returned by the methods of a nil File.
var errNoFile = errors.New("vkb: there is no bundle: Open and Read make one, unless they return an error")

// content returns f, or an empty file for nil.
func (f *File) content() *File {
	if f == nil {
		return &File{}
	}
	return f
}
