package generate

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/frontend/chat"
)

// ImagePart is the part of a message's content that stands for a picture: see Model.PromptWith.
func ImagePart() chat.Object { return chat.Object{{Key: "type", Value: "image"}} }

// TextPart is a part of a message's content with text.
func TextPart(text string) chat.Object {
	return chat.Object{{Key: "type", Value: "text"}, {Key: "text", Value: text}}
}

// isImagePart reports whether a part of a message's content is a picture.
func isImagePart(part any) bool {
	o, _ := part.(chat.Object)
	kind, _ := o.Get("type")
	return kind == "image"
}

// picturesIn counts the pictures in messages.
func picturesIn(messages ...chat.Message) (n int) {
	for _, m := range messages {
		parts, _ := m.Content.([]any)
		for _, p := range parts {
			if isImagePart(p) {
				n++
			}
		}
	}
	return n
}

// PromptWith returns the tokens of a conversation with pictures, in the form of the model's chat template. The content
// of a message with pictures is a list of parts, each a TextPart or an ImagePart. images are the pictures of all
// messages in order, which Sampling.Images must have too. If the template does not support pictures, a picture comes
// before the text that follows it.
func (m *Model) PromptWith(c chat.Context, images []*Image) ([]int32, error) {
	switch n := picturesIn(c.Messages...); {
	case n != len(images):
		return nil, fmt.Errorf("generate: the messages have %d pictures, and the request has %d: want the same "+
			"number", n, len(images))
	case n == 0:
		pieces, err := m.render(c)
		if err != nil {
			return nil, err
		}
		return m.tok.EncodeChat(pieces), nil
	case m.vision == nil:
		return nil, m.noProjector()
	}
	marks, parts := m.vision.config.Marks(), len(partsOf(images))
	pieces, err := m.render(c)
	lists := cutPieces(pieces, marks.Placeholder, false, pictureTexts{images, marks.Before, marks.After})
	if err != nil || len(lists) != parts+1 {
		// The template does not show the pictures. So the messages are rendered again as texts, with a random mark in
		// place of each picture, which no user can guess.
		mark := fmt.Sprintf("\ufffcpicture %s\ufffc", rand.Text())
		c.Messages = slices.Clone(c.Messages)
		for i := range c.Messages {
			c.Messages[i].Content = markPictures(c.Messages[i].Content, mark)
		}
		if pieces, err = m.render(c); err != nil {
			return nil, err
		}
		lists = cutPieces(pieces, mark, true, pictureTexts{images, marks.Begin, marks.End})
		if len(lists) != parts+1 {
			return nil, fmt.Errorf("generate: the chat template shows %d of %d pictures and their parts", len(lists)-1,
				parts)
		}
	}
	return m.around(lists, images), nil
}

// EncodeWith returns the tokens of the pictures, followed by the tokens of a text.
func (m *Model) EncodeWith(text string, images []*Image) ([]int32, error) {
	if len(images) > 0 && m.vision == nil {
		return nil, m.noProjector()
	}
	// lists[k] has the pieces of text before part k of the pictures, and the last list those after all parts.
	lists := [][]chat.Piece{nil}
	for i := range images {
		marks := m.vision.config.Marks()
		lists = appendTexts(lists, pictureTexts{images, marks.Begin, marks.End}.of(i))
	}
	last := len(lists) - 1
	lists[last] = append(lists[last], chat.Piece{Text: text, User: true})
	return m.around(lists, images), nil
}

// pictureTexts has the texts that a prompt has around pictures.
type pictureTexts struct {
	images        []*Image
	before, after string // around a picture without parts
}

// of returns the texts before each part of picture i, and after its last part. i may be past the last picture.
func (t pictureTexts) of(i int) []string {
	if i < len(t.images) && t.images[i].parts != nil {
		return t.images[i].texts
	}
	return []string{t.before, t.after}
}

// appendTexts appends the first text to the last of the lists of pieces, and a list of its own for each further text.
func appendTexts(lists [][]chat.Piece, texts []string) [][]chat.Piece {
	last := len(lists) - 1
	lists[last] = append(lists[last], chat.Piece{Text: texts[0]})
	for _, text := range texts[1:] {
		lists = append(lists, []chat.Piece{{Text: text}})
	}
	return lists
}

// around returns the tokens of lists[0], of the first part of the pictures, of lists[1], and so on.
func (m *Model) around(lists [][]chat.Piece, images []*Image) (prompt []int32) {
	images = partsOf(images)
	for i, tokens := range m.tok.EncodeAround(lists) {
		if i > 0 {
			prompt = append(prompt, images[i-1].tokens...)
		}
		prompt = append(prompt, tokens...)
	}
	return prompt
}

// markPictures returns a message's content as a text, with a mark in place of each picture. Content that is no list of
// parts stays unchanged.
func markPictures(content any, mark string) any {
	parts, ok := content.([]any)
	if !ok {
		return content
	}
	var text strings.Builder
	for _, part := range parts {
		if isImagePart(part) {
			text.WriteString(mark)
		} else if o, ok := part.(chat.Object); ok {
			more, _ := o.Get("text")
			fmt.Fprint(&text, more)
		}
	}
	return text.String()
}

// cutPieces divides pieces into lists: before, between and after the parts of pictures. Each mark in the pieces stands
// for the next picture. It is replaced by the texts around and between the picture's parts. Pieces of users are
// searched for the mark only if user is set, because a user's text could otherwise pretend to be a picture.
func cutPieces(pieces []chat.Piece, mark string, user bool, texts pictureTexts) [][]chat.Piece {
	lists, pictures := [][]chat.Piece{nil}, 0
	add := func(p chat.Piece) { lists[len(lists)-1] = append(lists[len(lists)-1], p) }
	for _, p := range pieces {
		for !p.User || user {
			head, tail, found := strings.Cut(p.Text, mark)
			if !found {
				break
			}
			add(chat.Piece{Text: head, User: p.User})
			lists = appendTexts(lists, texts.of(pictures))
			pictures++
			p.Text = tail
		}
		add(p)
	}
	return lists
}
