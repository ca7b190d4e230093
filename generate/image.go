package generate

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/huggingface"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/frontend/vision"
	"github.com/vkc-go/vkc/ir"
)

// Image is a picture as a model reads it: rows that take the place of embedded tokens. Model.ReadImage makes it. In a
// prompt a token below 0 stands for each row. It is a hash of the picture, so prompts with equal tokens have equal
// pictures.
type Image struct {
	tokens []int32
	rows   []float32
	grid   vision.Grid // of the rows

	// A picture in tiles has its rows in parts, with the texts of the tiling before each part and after the last.
	parts []*Image
	texts []string
}

// partsOf returns the parts of all pictures. A picture without parts counts as a part.
func partsOf(images []*Image) (list []*Image) {
	for _, p := range images {
		if p.parts != nil {
			list = append(list, p.parts...)
		} else {
			list = append(list, p)
		}
	}
	return list
}

// Tokens returns the tokens that stand for the picture in a prompt. For a picture in tiles, these are the tokens of its
// parts, without the texts that a prompt has between them.
func (p *Image) Tokens() (all []int32) {
	for _, part := range partsOf([]*Image{p}) {
		all = append(all, part.tokens...)
	}
	return all
}

// placedImage is a picture in a prompt.
type placedImage struct {
	*Image
	at int // the position of its first token
}

// begins reports whether tokens begin with the picture's.
func (p *Image) begins(tokens []int32) bool {
	return len(tokens) >= len(p.tokens) && slices.Equal(tokens[:len(p.tokens)], p.tokens)
}

// end returns the position after the picture.
func (p placedImage) end() int { return p.at + len(p.tokens) }

// placeImages returns the position of each picture in a prompt, in which negative numbers stand for pictures. It
// returns an error unless the prompt has exactly the given pictures, in their order, and text after the last one.
func placeImages(prompt []int32, images []*Image) (list []placedImage, err error) {
	images = partsOf(images)
	for i := 0; i < len(prompt); i++ {
		if prompt[i] >= 0 {
			continue
		}
		n := len(list)
		if n == len(images) || !images[n].begins(prompt[i:]) {
			return nil, fmt.Errorf("generate: token %d of the prompt is %d, which belongs to a picture, but not to "+
				"the next one of Sampling.Images", i, prompt[i])
		}
		list = append(list, placedImage{images[n], i})
		i = list[n].end() - 1 // the loop adds 1
	}
	switch n := len(list); {
	case n < len(images):
		return nil, fmt.Errorf("generate: the prompt has %d pictures, and Sampling.Images has %d: want the same "+
			"number", n, len(images))
	case n > 0 && list[n-1].end() == len(prompt):
		return nil, errors.New("generate: the prompt ends with a picture: want text after it")
	}
	return list, nil
}

// imageAt returns the picture that has the row of a position, or nil.
func (s *slot) imageAt(position int) *placedImage {
	if s.answer == nil {
		return nil
	}
	for i := range s.answer.images {
		if p := &s.answer.images[i]; p.at <= position && position < p.end() {
			return p
		}
	}
	return nil
}

// untilImage returns how many of the next tokens of a text come before a picture.
func untilImage(next []int32) int {
	if n := slices.IndexFunc(next, func(id int32) bool { return id < 0 }); n >= 0 {
		return n
	}
	return len(next)
}

// wholeImages returns n or, if the first n tokens of a prompt would cut a picture, the position where that picture
// begins.
func wholeImages(images []placedImage, n int) int {
	for _, p := range images {
		if p.at < n && n < p.end() {
			return p.at
		}
	}
	return n
}

// ropeOffset returns the difference between a token's rotary position and its position in the text. A picture advances
// rotary positions by its larger side, and positions by its number of tokens. See llm.Config.Pictures.
func ropeOffset(images []placedImage, position int) (offset int32) {
	for _, p := range images {
		if p.at < position {
			offset += int32(max(p.grid.Rows, p.grid.Columns) - len(p.tokens))
		}
	}
	return offset
}

// hasOffsets reports whether the model's graphs have the input llm.OffsetInput.
func (m *Model) hasOffsets() bool { return m.config.Pictures && len(m.config.Sections) > 0 }

// runImage adds the next rows of a picture to the KV cache: at most limit rows, or all if the model must read a picture
// in one run.
func (s *slot) runImage(ctx context.Context, p *placedImage, limit int) error {
	m, first := s.model, len(s.cached)-p.at
	n := min(len(p.tokens)-first, m.vision.atOnce)
	if !m.config.WholePictures() {
		n = s.partLength(min(n, limit))
	}
	in, width := vkc.Tensors{}, len(p.rows)/len(p.tokens)
	err := errors.Join(addInput(in, "embeddings", p.rows[first*width:(first+n)*width], n, width), s.addText(in))
	if len(m.config.Sections) > 0 { // rotary positions have three axes: time, row, column
		base := int32(p.at) + ropeOffset(s.answer.images, p.at)
		places := make([]int32, 3*n) // [3, n]
		for i := range n {
			at := first + i
			places[i] = base
			places[n+i] = base + int32(at/p.grid.Columns)
			places[2*n+i] = base + int32(at%p.grid.Columns)
		}
		err = errors.Join(err, addInput(in, "places", places, 3, n))
	}
	if err != nil {
		return err
	}
	length := len(s.cached) + n
	s.wrote(length)
	o := vkc.RunOptions{Symbols: map[string]int64{"S": int64(length)}}
	if _, err := m.vision.images.Run(ctx, in, o); err != nil {
		return err
	}
	s.cached = append(s.cached, p.tokens[first:first+n]...)
	return nil
}

// visionTower makes rows of pictures.
type visionTower struct {
	file   *gguf.File
	config vision.Config
	atOnce int // rows that a run of images reads

	mu     sync.Mutex
	images *vkc.Executable // of llm.Images; nil before the first picture
	exe    *vkc.Executable // makes rows of patches; nil before the first picture
	cpu    *vkc.Device     // for a tower that the model's device does not run
	host   *vkc.Device     // the CPU, to resize pictures for a bundle
	closed bool
	recent []recentImage // the latest last
}

// recentImage is a picture that was read before.
type recentImage struct {
	sum [sha256.Size]byte // of its file
	*Image
}

// acceptImages returns an error if an answer cannot have these pictures.
func (m *Model) acceptImages(ctx context.Context, images []*Image) error {
	if len(images) == 0 {
		return nil
	}
	if m.vision == nil {
		return m.noProjector()
	}
	for _, p := range partsOf(images) {
		if len(p.rows) != len(p.tokens)*m.vision.config.RowWidth() {
			return errors.New("generate: another model read the picture: read it again with this one")
		}
	}
	m.vision.mu.Lock()
	defer m.vision.mu.Unlock()
	if m.vision.closed {
		return errClosed
	}
	return m.loadImages(ctx) // a replica may have read them
}

// maxRecent bounds the rows of the pictures that a model remembers, in bytes.
const maxRecent = 64 << 20

// Values of Options.Projector that are no files.
const (
	NoProjector   = "none" // the model reads no pictures, even if there is an mmproj file
	AutoProjector = "auto" // the file that FindProjector finds, if it fits the model and the other options
)

// IsProjector reports whether a file's name means an mmproj file.
func IsProjector(name string) bool {
	name = strings.ToLower(name)
	return strings.Contains(name, "mmproj") && strings.HasSuffix(name, ".gguf")
}

// FindProjector returns the mmproj file of a model: the only one in the model's folder with mmproj in its name, or a
// Hugging Face folder itself if the model there has a vision tower. It returns "" if there is none, and an error if
// there are several.
func FindProjector(path string) (string, error) {
	if huggingface.IsFolder(path) {
		if has, err := huggingface.HasVision(path); !has || err != nil {
			return "", err
		}
		return path, nil
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil // opening the model says so
	}
	var found []string
	for _, e := range entries {
		if IsProjector(e.Name()) && e.Name() != filepath.Base(path) {
			found = append(found, filepath.Join(filepath.Dir(path), e.Name()))
		}
	}
	switch {
	case err != nil || len(found) == 0:
		return "", err
	case len(found) > 1:
		return "", wrongOption("Projector", "%s and %s are both next to the model: name one of them, or %s", found[0],
			found[1], NoProjector)
	}
	return found[0], nil
}

// readProjector reads the configuration of the model's vision tower, if the options name one. path is the model's.
func (m *Model) readProjector(path string, o Options) (err error) {
	if m.bundle != nil {
		return m.useBundledTower(path, o)
	}
	switch o.Projector {
	case "", NoProjector:
		return nil
	case AutoProjector:
		found, err := FindProjector(path)
		if err == nil && found != "" {
			err = m.useProjector(found, o)
		}
		if err != nil { // the model works without
			m.noVision = err
			err = m.vision.close()
			m.vision = nil
		}
		return err
	}
	return m.useProjector(o.Projector, o)
}

// errBundledTower says what to do with pictures for a bundle without a tower.
var errBundledTower = errors.New("this bundle has no vision tower: want one that was compiled with the model's " +
	"mmproj file (vkc compile --generate --mmproj), or the model's own files")

// useBundledTower reads the vision tower of a bundle, or notes that it has none. It returns an error if the options
// name another tower, which a bundle does not take.
func (m *Model) useBundledTower(path string, o Options) error {
	file, err := m.bundledTower()
	switch {
	case err != nil:
		return err
	case o.Projector != "" && o.Projector != NoProjector && o.Projector != AutoProjector:
		if file != nil {
			return wrongOption("Projector", "%s: the bundle has a vision tower, and takes no other", path)
		}
		return wrongOption("Projector", "%s: %w", path, errBundledTower)
	case file == nil:
		m.noVision = errBundledTower
		return nil
	}
	return m.useTower(path, file, o)
}

// useProjector is readProjector for an mmproj file.
func (m *Model) useProjector(path string, o Options) (err error) {
	open := vkc.OpenModel
	if huggingface.IsFolder(path) {
		open = huggingface.OpenVision
	}
	file, err := open(path)
	if err != nil {
		return err
	}
	return m.useTower(path, file, o)
}

// useTower reads the configuration of a vision tower from its file, which the model closes. It returns an error if the
// tower does not fit the model or the options.
func (m *Model) useTower(path string, file *gguf.File, o Options) (err error) {
	wrong := func(format string, args ...any) error {
		return wrongOption("Projector", "%s: %s", path, fmt.Sprintf(format, args...))
	}
	v := &visionTower{file: file}
	m.vision = v
	switch {
	case o.ContextShift:
		return wrong("a context shift cannot move pictures: leave out one of the two")
	case o.Speculation.Draft != "":
		return wrong("a draft model reads no pictures: leave out one of the two")
	}
	if v.config, err = vision.FromGGUF(v.file); err != nil {
		return wrong("%v", err)
	}
	if err := m.config.CheckPictures(); err != nil {
		return wrong("%v", err)
	}
	if have, want := v.config.RowWidth(), m.config.Width*(1+m.config.Deepstack); have != want {
		return wrong("the tower's rows have %d elements, and the model's %d: want the mmproj file of this "+
			"model", have, want)
	}
	m.config.Pictures = true
	return nil
}

// loadImages loads the program that reads rows of pictures. The caller holds m.vision.mu.
func (m *Model) loadImages(ctx context.Context) error {
	v := m.vision
	if v.images != nil {
		return nil
	}
	g, err := m.imagesGraph(m.options)
	if err != nil {
		return err
	}
	exe, err := m.load(ctx, g, Options{Precision: m.options.Precision}, m.step)
	if err == nil {
		v.images = exe
	}
	return err
}

// imagesGraph returns the graph that reads rows of pictures.
func (m *Model) imagesGraph(o Options) (*ir.Graph, error) {
	v := m.vision
	switch {
	case m.config.WholePictures():
		v.atOnce = v.config.Rows()
	case m.prompts == nil || m.bundle != nil: // equal when a bundle is made and when it is used
		parts := llm.Parts(m.part)
		v.atOnce = parts[len(parts)-1]
	default:
		v.atOnce = m.prompts[len(m.prompts)-1].rows
	}
	return llm.Images(m.config, v.atOnce, m.context, m.cache(o)...)
}

// towerGraph returns the graph that makes rows of patches.
func (m *Model) towerGraph() (*ir.Graph, error) { return m.vision.config.Tower(m.maxRows()) }

// close releases the tower, its devices and its programs. A nil tower is a model without one.
func (v *visionTower) close() error {
	if v == nil {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.closed = true
	var errs []error
	for _, exe := range []*vkc.Executable{v.images, v.exe} {
		if exe != nil {
			errs = append(errs, exe.Close())
		}
	}
	for _, d := range []*vkc.Device{v.cpu, v.host} {
		if d != nil {
			errs = append(errs, d.Close())
		}
	}
	if v.file != nil {
		errs = append(errs, v.file.Close())
	}
	return errors.Join(errs...)
}

// ReadsImages reports whether the model has a vision tower: see Options.Projector.
func (m *Model) ReadsImages() bool { return m.vision != nil }

// ErrNoProjector is the error of a picture for a model without a vision tower.
var ErrNoProjector = errors.New("generate: the model reads no pictures: want its mmproj file next to it, or named by " +
	"--mmproj")

// noProjector returns ErrNoProjector, with the reason if the file next to the model does not fit.
func (m *Model) noProjector() error {
	if m.noVision != nil {
		return fmt.Errorf("%w (%w)", ErrNoProjector, m.noVision)
	}
	return ErrNoProjector
}

// ReadImage reads a picture, in PNG, JPEG, GIF, WebP or BMP. It returns a *vision.PictureError for a picture that is
// damaged, too large or in another format, or that takes more tokens than there is room for.
func (m *Model) ReadImage(ctx context.Context, data []byte) (*Image, error) {
	v := m.vision
	if v == nil {
		return nil, m.noProjector()
	}
	sum := sha256.Sum256(data)
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return nil, errClosed
	}
	if image := v.recall(sum); image != nil {
		return image, nil
	}
	picture, err := vision.Decode(data)
	if err != nil {
		return nil, err
	}
	grid, err := v.config.Fit(picture.Width, picture.Height, min(m.maxRows(), m.context-1))
	if err != nil {
		return nil, err
	}
	tiling, err := v.config.Tile(picture.Width, picture.Height, grid, m.context-1)
	if err != nil {
		return nil, err
	}
	if err := m.loadImages(ctx); err != nil {
		return nil, err
	}
	rows, err := m.rowsOf(ctx, picture, grid, tiling)
	if err != nil {
		return nil, err
	}
	image := &Image{texts: tiling.Texts}
	for _, part := range rows {
		image.parts = append(image.parts, m.newImage(sum, len(image.parts), part, grid))
	}
	if len(rows) == 1 {
		image = image.parts[0] // a picture of one part needs no texts between parts
	}
	v.remember(sum, image)
	return image, nil
}

// recall returns the picture of the file with a hash, or nil if the model does not remember it.
func (v *visionTower) recall(sum [sha256.Size]byte) *Image {
	i := slices.IndexFunc(v.recent, func(r recentImage) bool { return r.sum == sum })
	if i < 0 {
		return nil
	}
	known := v.recent[i]
	v.recent = append(slices.Delete(v.recent, i, i+1), known)
	return known.Image
}

// remember adds a picture to the recent ones. Then it drops the oldest ones until the rows of all fit in maxRecent
// bytes. The new picture always stays.
func (v *visionTower) remember(sum [sha256.Size]byte, image *Image) {
	v.recent = append(v.recent, recentImage{sum, image})
	bytes := 0
	for i, r := range slices.Backward(v.recent) {
		for _, p := range partsOf([]*Image{r.Image}) {
			bytes += 4 * len(p.rows) // float32
		}
		if bytes > maxRecent && r.Image != image {
			v.recent = v.recent[i+1:]
			return
		}
	}
}

// newImage returns part n of a picture with the part's rows. sum is the hash of the picture's file, and grid the size
// of the part in patches of the tower.
func (m *Model) newImage(sum [sha256.Size]byte, n int, rows []float32, grid vision.Grid) *Image {
	c := m.vision.config
	p := &Image{rows: rows, grid: c.Merged(grid)}
	count := len(rows) / c.RowWidth()
	if count != p.grid.Rows*p.grid.Columns { // the rows of several views
		p.grid = vision.Grid{Rows: 1, Columns: count}
	}
	for i := range count {
		p.tokens = append(p.tokens, imageToken(sum, n*count+i))
	}
	return p
}

// imageToken returns the token below 0 for a row of the picture with a hash.
func imageToken(sum [sha256.Size]byte, row int) int32 {
	hash := sha256.Sum256(binary.LittleEndian.AppendUint32(sum[:], uint32(row)))
	return -1 - int32(binary.LittleEndian.Uint32(hash[:])&math.MaxInt32)
}

// maxRows returns the most rows that the tower's program makes. A picture of any size takes at most half of the
// context.
func (m *Model) maxRows() int {
	c := m.vision.config
	return max(min(c.MaxRows(), m.context/2), c.Rows())
}

// rowsOf runs the tower on the views of a picture: squares of it, or a small copy of it. It returns the rows of each
// part of the prompt: a part for each view if there are texts between views, and else a single part. The caller holds
// m.vision.mu.
func (m *Model) rowsOf(ctx context.Context, picture *vision.Picture, grid vision.Grid,
	t vision.Tiling) (parts [][]float32, err error) {
	c := m.vision.config
	if m.vision.exe == nil {
		g, err := m.towerGraph()
		if err == nil {
			m.vision.exe, err = m.loadTower(ctx, g, m.options.Precision)
		}
		if err != nil {
			return nil, err
		}
	}
	rows, columns := c.Places(grid)
	in := vkc.Tensors{}
	err = errors.Join(addInput(in, "rows", rows, len(rows)), addInput(in, "columns", columns, len(rows)))
	if c.ManySizes() {
		err = errors.Join(err, addInput(in, "grid", []int32{int32(grid.Rows), int32(grid.Columns)}, 2))
	}
	if err != nil {
		return nil, err
	}
	err = m.patches(ctx, picture, grid, t.Views, func(patches *ir.Data) error { // for each view
		in["patches"] = patches
		res, err := m.vision.exe.Run(ctx, in)
		if err != nil {
			return err
		}
		values, err := vkc.Values[float32](res.Outputs["embeddings"])
		if err == nil && slices.ContainsFunc(values, func(v float32) bool { return v != v }) {
			err = errors.New("generate: the vision tower computed NaN or infinity for the picture")
		}
		parts = append(parts, slices.Clone(values))
		return err
	})
	// Without texts between the views, their rows are one part, in the order t.Rows.
	if err != nil || t.Texts != nil || t.Rows == nil {
		return parts, err
	}
	one, err := m.joinRows(slices.Concat(parts...), t.Rows)
	return [][]float32{one}, err
}

// joinRows returns the rows of all views in the order of vision.Tiling.Rows, where -1 stands for the weight Newline.
func (m *Model) joinRows(all []float32, order []int) (rows []float32, err error) {
	width := m.vision.config.RowWidth()
	newline, err := m.vision.file.Weight(vision.Newline)
	if err != nil {
		return nil, err
	}
	end, err := newline.Floats()
	if err != nil {
		return nil, err
	}
	for _, i := range order {
		if i >= 0 {
			rows = append(rows, all[i*width:][:width]...)
			continue
		}
		for _, v := range end {
			rows = append(rows, float32(v))
		}
	}
	return rows, nil
}

// patches resizes a picture to each of its views on the device, and calls use with the patches of each. The program is
// made for the picture's size. Its matmuls are exact, because they compute levels of colors.
func (m *Model) patches(ctx context.Context, picture *vision.Picture, grid vision.Grid, views []vision.View,
	use func(patches *ir.Data) error) (err error) {
	c, width, height := m.vision.config, picture.Width, picture.Height
	g, err := c.Resize(width, height, grid)
	if err != nil {
		return err
	}
	exe, err := m.loadResize(ctx, g)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, exe.Close()) }()
	image, err := vkc.Of(picture.Pixels, height, width, 3)
	if err != nil {
		return err
	}
	for _, view := range views {
		// Matrices [rows of the view, height] and [columns of the view, width].
		down, across := c.Filters(width, height, grid, view)
		in := vkc.Tensors{"image": image}
		err := errors.Join(addInput(in, "down", down, len(down)/height, height),
			addInput(in, "across", across, len(across)/width, width))
		if err != nil {
			return err
		}
		res, err := exe.Run(ctx, in)
		if err != nil {
			return err
		}
		if err := use(res.Outputs["patches"]); err != nil {
			return err
		}
	}
	return nil
}

// loadResize compiles and loads the program that resizes a picture. A bundle needs no compiler, and cannot have a
// program for each size of a picture, so the CPU resizes its pictures.
func (m *Model) loadResize(ctx context.Context, g *ir.Graph) (_ *vkc.Executable, err error) {
	if m.bundle == nil || m.device.IsCPU() {
		return m.loadTower(ctx, g, "")
	}
	v := m.vision
	if v.host == nil {
		if v.host, err = vkc.OpenDevice("cpu"); err != nil {
			return nil, err
		}
	}
	return v.host.LoadGraph(ctx, g, nil)
}

// loadTower compiles and loads a program of the tower. If it fails on a device that vkc chose, the CPU runs it.
func (m *Model) loadTower(ctx context.Context, g *ir.Graph, precision string) (*vkc.Executable, error) {
	g, err := withPrecision(g, precision)
	if err != nil {
		return nil, err
	}
	v := m.vision
	load := func(d *vkc.Device) (*vkc.Executable, error) {
		p, err := m.fromBundle(g, v.file)
		// A bundle's programs are for the model's device, so another device compiles.
		if p == nil && err == nil || d != m.device {
			p, err = d.Compile(ctx, g, vkc.CompileOptions{Weights: v.file})
		}
		if err != nil {
			return nil, err
		}
		return loadOn(ctx, d, p, vkc.LoadOptions{Weights: v.file})
	}
	if v.cpu != nil { // an earlier program of the tower failed on the device
		return load(v.cpu)
	}
	exe, err := load(m.device)
	refused := (*refusedError)(nil)
	if err = m.refusal(ctx, fmt.Sprintf("the program %q", g.Name), err); !errors.As(err, &refused) {
		return exe, err
	}
	if v.cpu, err = vkc.OpenDevice("cpu"); err != nil {
		return nil, err
	}
	m.reportFallback(refused)
	return load(v.cpu)
}
