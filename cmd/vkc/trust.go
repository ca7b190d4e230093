package main

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/bundle"
	"github.com/vkc-go/vkc/codegen/spirv"
)

// addTrusted adds the flag for the keys of trusted bundles.
func addTrusted(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "trusted-keys", "", trustedHelp)
}

const trustedHelp = "refuse a bundle unless it is signed with one of the public keys in `FILE`"

// trust returns an error unless the driver may get a bundle's shaders. With a file of keys, the bundle must be signed
// with one of them. Without, spirv-val must accept the shaders; if it is not installed, trust prints a warning.
func (a *app) trust(ctx context.Context, p *vkc.Program, keys string) error {
	if keys != "" {
		trusted, err := bundle.ReadPublicKeys(keys)
		if err != nil {
			return err
		}
		return p.SignedBy(trusted)
	}
	err := p.Validate(ctx)
	if missing := (*spirv.MissingToolError)(nil); errors.As(err, &missing) {
		a.note("spirv-val is not installed, so only the form of the bundle's shaders was checked: run only bundles " +
			"of people that you trust")
		return nil
	}
	if err != nil {
		return fmt.Errorf("the bundle's shaders may be invalid, and invalid shaders could crash the driver: %w", err)
	}
	return nil
}

// readSigner reads the key in a file. It returns nil if no file is given.
func readSigner(file string) (ed25519.PrivateKey, error) {
	if file == "" {
		return nil, nil
	}
	return bundle.ReadPrivateKey(file)
}

// signCommand declares the command vkc sign and its flags.
func (a *app) signCommand() *cobra.Command {
	var key, out string
	cmd := &cobra.Command{
		Use:   "sign BUNDLE.vkb --key KEY.pem",
		Short: "Sign a bundle, so that others can tell that you made it",
		Long: `Sign a bundle with an Ed25519 key, so that others can tell that you made it and nobody changed it. With
--trusted-keys KEY.pem.pub, vkc run accepts no other bundles. The signature is written into the bundle and replaces an
earlier one. vkc compile --sign signs a new bundle; vkc keygen makes keys.`,
		Example: `  vkc sign BUNDLE.vkb --key KEY.pem
  vkc sign BUNDLE.vkb --key KEY.pem -o SIGNED.vkb`,
		Args: exactArgs("BUNDLE.vkb"),
		RunE: func(_ *cobra.Command, args []string) error {
			if key == "" {
				return usagef("--key KEY.pem is missing; vkc keygen makes one")
			}
			signer, err := bundle.ReadPrivateKey(key)
			if err != nil {
				return err
			}
			if out == "" {
				out = args[0]
			}
			if err := bundle.Sign(args[0], out, signer); err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.stdout, "%s: signed with key %s\n", out,
				bundle.KeyName(signer.Public().(ed25519.PublicKey)))
			return err
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "the private key, in PEM (PKCS #8), in `KEY.pem`")
	cmd.Flags().StringVarP(&out, "output", "o", "", "write the signed bundle to `FILE` and leave the original "+
		"unchanged")
	return cmd
}

// keygenCommand declares the command vkc keygen and its flags.
func (a *app) keygenCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "keygen KEY.pem",
		Short: "Make a key to sign bundles with",
		Long: `Make an Ed25519 key to sign bundles with. KEY.pem gets the private key, which you keep secret.
KEY.pem.pub gets the public key, for people who trust your bundles. Both are PEM files (PKCS #8 and PKIX), like those of
openssl. vkc keygen does not overwrite existing files.`,
		Example: "  vkc keygen KEY.pem",
		Args:    exactArgs("KEY.pem"),
		RunE: func(_ *cobra.Command, args []string) error {
			public, err := bundle.WriteKeys(args[0])
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.stdout, "%s: private key, keep it secret\n%s.pub: public key %s\n", args[0],
				args[0], bundle.KeyName(public))
			return err
		},
	}
}
