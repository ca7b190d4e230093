package serve

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/vkc-go/vkc/frontend/chat"
	"github.com/vkc-go/vkc/frontend/vision"
	"github.com/vkc-go/vkc/generate"
)

// imageModel is a Model that may read pictures.
type imageModel interface {
	ReadsImages() bool
	ReadImage(ctx context.Context, data []byte) (*generate.Image, error)
	PromptWith(c chat.Context, images []*generate.Image) ([]int32, error)
}

// images returns the model if it reads pictures, and else nil.
func images(m Model) imageModel {
	if reader, ok := m.(imageModel); ok && reader.ReadsImages() {
		return reader
	}
	return nil
}

// Bounds of requests with pictures.
const (
	maxPictures         = 16
	maxBodyWithPictures = 32 << 20
)

// picture is a picture of a request, and its place there.
type picture struct {
	where string
	url   string
}

// contentPart is a part of a message's content.
type contentPart struct {
	Type, Text string
	Image      json.RawMessage `json:"image_url"`
}

// picture returns the picture of a part, if it is one. OpenAI's protocols have an object with the URL, or the URL.
func (p contentPart) picture(where string) (one picture, ok bool) {
	if p.Type != "image_url" && p.Type != "input_image" {
		return one, false
	}
	one.where = where
	var object struct{ URL string }
	if json.Unmarshal(p.Image, &one.url) != nil && json.Unmarshal(p.Image, &object) == nil {
		one.url = object.URL
	}
	return one, true
}

// data decodes the picture from its data URL. It returns an error for other URLs, because the server fetches no
// pictures.
func (p picture) data() ([]byte, error) {
	kind, text, ok := strings.Cut(p.url, ",")
	kind, isData := strings.CutPrefix(kind, "data:")
	if !ok || !isData || !strings.HasSuffix(kind, ";base64") {
		return nil, refuse(http.StatusBadRequest, p.where, "%s is a picture at %.40q: the server fetches no pictures: "+
			"want a data URL, such as data:image/png;base64,…", p.where, p.url)
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, p.where, "%s: the picture is not base64: %v", p.where, err)
	}
	return data, nil
}

// readPictures encodes the pictures of a request by the model's vision tower. It returns an error for too many
// pictures, and for a picture that cannot be read.
func (s *Server) readPictures(ctx context.Context, list []picture) (read []*generate.Image, err error) {
	if len(list) > maxPictures {
		return nil, refuse(http.StatusBadRequest, "messages", "messages has %d pictures: want at most %d", len(list),
			maxPictures)
	}
	for _, p := range list {
		data, err := p.data()
		if err != nil {
			return nil, err
		}
		one, err := images(s.model).ReadImage(ctx, data)
		if wrong := (*vision.PictureError)(nil); errors.As(err, &wrong) {
			return nil, refuse(http.StatusBadRequest, p.where, "%s: %v", p.where, wrong)
		}
		if err != nil {
			return nil, err
		}
		read = append(read, one)
	}
	return read, nil
}
