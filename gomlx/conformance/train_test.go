// Package conformance trains models by GoMLX on the backend vkc. Script scripts/gomlx runs it, and GoMLX's own tests
// of graphs, which this module's dependencies are for.
package conformance

import (
	"flag"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gomlx/compute"
	_ "github.com/gomlx/compute/gobackend"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	_ "github.com/gomlx/gomlx/core/graph/graphtest" // for GoMLX's own tests
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/layers"
	"github.com/gomlx/gomlx/ml/layers/kan"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/train"
	"github.com/gomlx/gomlx/ml/train/loss"
	"github.com/gomlx/gomlx/ml/train/optimizer"
	_ "github.com/stretchr/testify/require" // for GoMLX's own tests
	_ "github.com/vkc-go/vkc/gomlx"
)

var config = flag.String("backend", "vkc:cpu", "what models are trained on, as GOMLX_BACKEND says it")

// example is a model, its loss and optimizer, and data made for it.
type example struct {
	model     train.ModelFn
	loss      train.LossFn
	optimizer func() optimizer.Interface
	batch     func(r *rand.Rand) (inputs, labels *tensors.Tensor)
	steps     int
	// below is an upper bound of the mean loss over the last tenth of the steps, once the model has learned.
	below float64
}

var examples = map[string]example{
	"linear": {
		model: func(scope *model.Scope, _ any, in []*Node) []*Node {
			return []*Node{layers.Dense(scope, in[0], true, 1)}
		},
		loss:      loss.MeanSquaredError,
		optimizer: func() optimizer.Interface { return optimizer.StochasticGradientDescent().Done() },
		batch: func(r *rand.Rand) (*tensors.Tensor, *tensors.Tensor) {
			x, y := make([]float64, 256*3), make([]float64, 256)
			for i := range y {
				y[i] = 1.5
				for j, c := range []float64{2, -3, 0.5} {
					x[3*i+j] = r.NormFloat64()
					y[i] += c * x[3*i+j]
				}
			}
			return tensors.FromFlatDataAndDimensions(x, 256, 3), tensors.FromFlatDataAndDimensions(y, 256, 1)
		},
		steps: 100, below: 0.1,
	},
	"discretekan": {
		model: func(scope *model.Scope, _ any, in []*Node) []*Node {
			return []*Node{kan.New(scope, in[0], 1).NumHiddenLayers(1, 4).NumControlPoints(8).Discrete().Done()}
		},
		loss:      loss.MeanSquaredError,
		optimizer: func() optimizer.Interface { return optimizer.Adam().LearningRate(0.02).Done() },
		batch: func(r *rand.Rand) (*tensors.Tensor, *tensors.Tensor) {
			x, y := make([]float32, 128*2), make([]float32, 128)
			for i := range y {
				a, b := 2*r.Float64()-1, 2*r.Float64()-1
				x[2*i], x[2*i+1], y[i] = float32(a), float32(b), float32(math.Sin(3*a)+b*b)
			}
			return tensors.FromFlatDataAndDimensions(x, 128, 2), tensors.FromFlatDataAndDimensions(y, 128, 1)
		},
		steps: 150, below: 0.25,
	},
	"flowmatching": { // Lipman et al. 2023: from noise to two half moons, by the velocity between them
		model: func(scope *model.Scope, _ any, in []*Node) []*Node {
			g, moons := in[0].Graph(), in[0]
			batch := moons.Shape().Dimensions[0]
			noise := scope.RandomNormal(g, moons.Shape())
			t := scope.RandomUniform(g, shapes.Make(moons.DType(), batch, 1))
			x := Add(Mul(moons, t), Mul(noise, OneMinus(t)))
			h := Concatenate([]*Node{x, t, Square(t)}, -1)
			for i := range 3 {
				h = Tanh(layers.Dense(scope.In("hidden_%d", i), h, true, 64))
			}
			velocity := layers.Dense(scope.In("velocity"), h, true, 2)
			return []*Node{velocity, ReduceAllMean(Square(Sub(velocity, Sub(moons, noise))))}
		},
		loss:      func(_, predictions []*Node) *Node { return predictions[1] },
		optimizer: func() optimizer.Interface { return optimizer.Adam().LearningRate(0.005).Done() },
		batch: func(r *rand.Rand) (*tensors.Tensor, *tensors.Tensor) {
			x := make([]float32, 256*2)
			for i := 0; i < len(x); i += 4 {
				a, b := math.Pi*r.Float64(), math.Pi*r.Float64()
				x[i], x[i+1] = float32(2*math.Cos(a)), float32(2*math.Sin(a))
				x[i+2], x[i+3] = float32(2-2*math.Cos(b)), float32(1-2*math.Sin(b))
			}
			return tensors.FromFlatDataAndDimensions(x, 256, 2), tensors.FromFlatDataAndDimensions(make([]float32,
				256), 256, 1)
		},
		steps: 200, below: 2.2,
	},
}

// trainer prepares a training. The returned function performs one step and returns its loss.
func (e example) trainer(tb testing.TB, backend compute.Backend) func() float64 {
	tb.Helper()
	store := model.NewStore()
	if err := store.SetRNGStateFromSeed(42); err != nil {
		tb.Fatal(err)
	}
	trainer := train.NewTrainer(backend, store, e.model, e.loss, e.optimizer(), nil, nil)
	r := rand.New(rand.NewPCG(1, 2))
	return func() float64 {
		inputs, labels := e.batch(r)
		metrics, err := trainer.TrainStep(train.Batch{Inputs: []*tensors.Tensor{inputs},
			Labels: []*tensors.Tensor{labels}})
		if err != nil {
			tb.Fatalf("%+v", err)
		}
		return shapes.ConvertTo[float64](metrics[0].Value())
	}
}

func open(tb testing.TB, config string) compute.Backend {
	tb.Helper()
	backend, err := compute.NewWithConfig(config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(backend.Finalize)
	return backend
}

// TestTrain: each example learns.
func TestTrain(t *testing.T) {
	backend := open(t, *config)
	for name, e := range examples {
		t.Run(name, func(t *testing.T) {
			step := e.trainer(t, backend)
			first, last := step(), 0.0
			for i := 1; i < e.steps; i++ {
				if l := step(); i >= e.steps-e.steps/10 {
					last += l / float64(e.steps/10)
				}
			}
			t.Logf("loss %.4g -> %.4g in %d steps", first, last, e.steps)
			if !(last < e.below) {
				t.Errorf("the loss of the last steps is %g: want less than %g", last, e.below)
			}
		})
	}
}

// BenchmarkStep measures steps of training, on the backend of flag -backend.
func BenchmarkStep(b *testing.B) {
	backend := open(b, *config)
	for name, e := range examples {
		b.Run(name, func(b *testing.B) {
			step := e.trainer(b, backend)
			for range 3 {
				step()
			}
			for b.Loop() {
				step()
			}
		})
	}
}
