# A formula for a tap. A release fills in `url` and `sha256` of its source archive; until then: brew install --HEAD.
class Reconciler < Formula
  desc "Keep large language models running on a cluster of Macs"
  homepage "https://github.com/OWNER/reconciler"
  license "Apache-2.0"
  head "https://github.com/OWNER/reconciler.git", branch: "main"

  depends_on "uv" => :build
  depends_on "git"
  depends_on "python@3.13"

  def install
    python = Formula["python@3.13"].opt_bin/"python3.13"
    system "uv", "venv", "--python", python, libexec
    system "uv", "pip", "install", "--python", libexec/"bin/python",
           "--constraints", "constraints.txt", "#{buildpath}[runtime]"
    bin.install_symlink libexec/"bin/reconciler"
    man1.install "reconciler/shipped/share/reconciler.1"
    bash_completion.install "reconciler/shipped/share/reconciler.bash" => "reconciler"
    zsh_completion.install "reconciler/shipped/share/_reconciler"
    fish_completion.install "reconciler/shipped/share/reconciler.fish"
  end

  def caveats
    <<~EOS
      To try it on this machine:
        reconciler quickstart
      To run a cluster from every boot on (it says what needs sudo):
        reconciler install
      After `brew upgrade`, have the service run the new version:
        reconciler upgrade
    EOS
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/reconciler version") unless build.head?
    system bin/"reconciler", "validate", "-f", libexec.glob("lib/python*/site-packages/reconciler/shipped/manifests").first
  end
end
