"""Writes expectations.json from a copy of google/robotstxt-spec-test; it needs protobuf."""

import json
import sys
from pathlib import Path

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

FIELD = descriptor_pb2.FieldDescriptorProto
ONE, MANY = FIELD.LABEL_OPTIONAL, FIELD.LABEL_REPEATED
MESSAGE, ENUM = FIELD.TYPE_MESSAGE, FIELD.TYPE_ENUM
TEXT = FIELD.TYPE_BYTES  # some explanations are not UTF-8
PACKAGE = "specification"


def specification():
    """Return the class of src/main/proto/specification/specification.proto."""
    file = descriptor_pb2.FileDescriptorProto(name="s.proto", package=PACKAGE, syntax="proto2")
    for name, values in (
        ("Outcome", ("UNSPECIFIED", "ALLOWED", "DISALLOWED")),
        ("TestType", ("STANDARD", "GOOGLE_SPECIFIC")),
    ):
        enum = file.enum_type.add(name=name)
        for number, value in enumerate(values):
            enum.value.add(name=value, number=number)
    for name, fields in (
        ("RobotsTxtSpecification", [("tests", MESSAGE, MANY, "RobotsTxtTest")]),
        (
            "RobotsTxtTest",
            [("robotstxt", TEXT, ONE, ""), ("test_expectations", MESSAGE, MANY, "Expectation")],
        ),
        (
            "Expectation",
            [
                ("testurl", TEXT, ONE, ""),
                ("useragent", TEXT, ONE, ""),
                ("expected_outcome", ENUM, ONE, "Outcome"),
                ("additional_explanation", TEXT, ONE, ""),
                ("test_type", ENUM, ONE, "TestType"),
            ],
        ),
    ):
        message = file.message_type.add(name=name)
        for number, (field, kind, label, of) in enumerate(fields, 1):
            kinds = f".{PACKAGE}.{of}" if of else None
            message.field.add(name=field, number=number, type=kind, label=label, type_name=kinds)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = pool.FindMessageTypeByName(f"{PACKAGE}.RobotsTxtSpecification")
    return message_factory.GetMessageClass(found)


def main() -> None:
    root = Path(sys.argv[1], "src/main/resources/CTC")
    entries = []
    for path in sorted(root.rglob("*.textproto")):
        for test in text_format.Parse(path.read_text(), specification()()).tests:
            expected = [
                [each.useragent.decode(), each.testurl.decode(), each.expected_outcome == 1]
                for each in test.test_expectations
            ]
            name = str(path.relative_to(root).with_suffix(""))
            entries.append([name, test.robotstxt.decode("latin-1"), expected])
    sys.stdout.write("[\n" + ",\n".join(json.dumps(entry) for entry in entries) + "\n]\n")


if __name__ == "__main__":
    main()
