"""Signatures by the user's own key, ssh's or OpenPGP's, as their git configuration names it."""

import os
import re
import tempfile
from pathlib import Path

from msgspec import Struct

from goalseek.errors import UNFIT, GoalseekError
from goalseek.git.command import git_as_user
from goalseek.process import CompletedProgram, environment_without, run

SUFFIXES = {"ssh": ".sig", "openpgp": ".asc"}
_NAMESPACE = "goalseek"  # a signature of a claim is none of a commit
_LITERAL_KEYS = ("key::", "ssh-", "ecdsa-", "sk-")


class Signer(Struct, frozen=True):
    form: str  # of SUFFIXES
    program: str
    key: str


def find_signer(folder: Path) -> Signer | None:
    """The key of ``user.signingkey``; None if none is configured. Raises GoalseekError for another ``gpg.format``."""

    def setting(name: str) -> str:
        return os.fsdecode(git_as_user("config", "--get", name, folder=folder).stdout).strip()

    form, key = setting("gpg.format") or "openpgp", setting("user.signingkey")
    if key and form not in SUFFIXES:
        raise GoalseekError(f"a claim cannot be signed with gpg.format = {form}", "git config gpg.format ssh", UNFIT)
    usual = "ssh-keygen" if form == "ssh" else setting("gpg.program") or "gpg"
    return Signer(form, setting(f"gpg.{form}.program") or usual, key) if key else None


def sign(signer: Signer, content: bytes) -> bytes:
    """Raises GoalseekError if the key cannot sign."""
    signing = (signer.program, "-Y", "sign", "-n", _NAMESPACE, "-f")
    if signer.form != "ssh":
        answer = _run(content, signer.program, "-bsau", signer.key)
    elif not signer.key.startswith(_LITERAL_KEYS):
        answer = _run(content, *signing, os.path.expanduser(signer.key))
    else:  # a public key, whose private one an agent has
        with tempfile.NamedTemporaryFile("w", suffix=".pub") as file:
            print(signer.key.removeprefix("key::"), file=file, flush=True)
            answer = _run(content, *signing, file.name, "-U")
    if answer.returncode or not answer.stdout:
        message = f"{signer.program} cannot sign with user.signingkey = {signer.key}: {_text(answer)}"
        raise GoalseekError(message, "make the key usable; or unsigned: git config --unset user.signingkey", UNFIT)
    return answer.stdout


def check_signature(form: str, content: bytes, signature: Path, signers: Path | None) -> str:
    """Who signed the content, in words; ``signers`` is a file as git's ``gpg.ssh.allowedSignersFile``.

    Raises GoalseekError for a signature of other content, or by nobody in ``signers``.
    """
    keygen, how = ("ssh-keygen", "-Y"), ("-n", _NAMESPACE, "-s", str(signature))
    if form != "ssh":
        answer = _run(content, "gpg", "--status-fd=1", "--verify", str(signature), "-")
        if key := re.search(r"\] NO_PUBKEY (\w+)", _text(answer)):
            who = f"signed with the gpg key {key[1]}, which your keyring does not have: not checked"
        else:
            names = re.findall(r"\] (?:GOODSIG \w+|TRUST_)(.+)", _text(answer))
            who = f"signed with a gpg key of {', trust: '.join(names).strip()}"
        refusal = "gpg signed it, and --signers has ssh keys" if signers else "" if key else _text(answer)
    elif signers is None:
        answer = _run(content, *keygen, "check-novalidate", *how)
        who = f"signed with {_text(answer).rpartition(' with ')[2]}; --signers FILE says whose it is"
        refusal = _text(answer)
    else:
        found = _run(b"", *keygen, "find-principals", "-s", str(signature), "-f", str(signers))
        who = os.fsdecode(found.stdout).partition("\n")[0]
        answer = _run(content, *keygen, "verify", "-f", str(signers), "-I", who, *how)
        refusal = f"it is none of {who or 'anybody'} in {signers} for {_NAMESPACE}: {_text(answer)}"
        who = f"signed by {who}"
    if refusal and (answer.returncode or (signers and form != "ssh")):
        raise GoalseekError(f"the signature does not hold: {refusal}", "ask for the claim once more", UNFIT)
    return who


def _run(content: bytes, *arguments: str) -> CompletedProgram:
    try:
        return run(arguments, environment_without("GIT_"), content)
    except FileNotFoundError:
        raise GoalseekError(f"there is no program {arguments[0]}", "install OpenSSH, or GnuPG", UNFIT) from None


def _text(answer: CompletedProgram) -> str:
    return (answer.stderr + answer.stdout).decode("utf-8", "replace").strip()
