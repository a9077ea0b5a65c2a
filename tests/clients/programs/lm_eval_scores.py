"""lm-evaluation-harness: prints, as one line of JSON, how likely each continuation of a text is, and whether it is what the
model would say.

Arguments: the address of the completions, the folder of the tokenizer, and pairs of texts and continuations in JSON.
"""

import json
import sys

from lm_eval.api.instance import Instance
from lm_eval.models.openai_completions import LocalCompletionsAPI

address, tokenizer, pairs = sys.argv[1:]
model = LocalCompletionsAPI(
    base_url=address, model="tiny", tokenizer=tokenizer, tokenizer_backend="huggingface", batch_size=2
)
requests = [
    Instance(request_type="loglikelihood", doc={}, arguments=tuple(pair), idx=number)
    for number, pair in enumerate(json.loads(pairs))
]
print(json.dumps(model.loglikelihood(requests, disable_tqdm=True)))
