# Runs one command of the client and prints JSON lines: scripts/e2e/clients_test.go.
import json
import os
import sys

import ao_client as ao

client = ao.Client(retry_for=float(os.environ.get("RETRY_FOR", "60")))


def say(**members):
    print(json.dumps(members), flush=True)


def main(command, *args):
    if command == "start":
        say(run=client.start(args[0], parameters=json.loads(args[1]), key=args[2]).run_id)
    elif command == "run":
        say(data=client.run(args[0], parameters=json.loads(args[1])).result["result_data"])
    elif command == "bad":
        client.start("echo", timeout_seconds=-1)
    elif command == "wait":
        run = client.wait(args[0])
        say(status=run.status, data=run.result["result_data"])
    elif command == "events":
        for event in client.events(*args):
            content = event.document.get("content")
            say(type=event.type, text=content[0]["text"] if content else "", position=event.position)
        say(type="end")
    elif command == "verify":
        sent = json.load(sys.stdin)
        hook = ao.verify_webhook(sent["body"].encode(), sent["headers"], *args)
        say(id=hook.id, type=hook.type, run=hook.run.run_id)


try:
    main(*sys.argv[1:])
except ao.APIError as e:
    say(error="api", status=e.status, code=e.code, field=e.field, message=e.message)
except ao.RunError as e:
    say(error="run", code=e.code, message=e.message)
except ao.UnreachableError:
    say(error="unreachable")
except ao.SignatureError:
    say(error="signature")
