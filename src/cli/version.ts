import { defineCommand, EXIT, PROGRAM, VERSION } from './command.ts';
import { oneOf, option } from './options.ts';
import { printData } from './output/print.ts';

export const command = defineCommand({
  options: {
    output: option('FORMAT', oneOf(['json', 'yaml'] as const), undefined, { short: 'o', help: 'One of json, yaml' }),
  },
  run({ output }, _operands, io) {
    const facts = {
      version: `v${VERSION}`,
      nodeVersion: process.version,
      platform: `${process.platform}/${process.arch}`,
    };
    io.stdout.write(output === undefined ? `${PROGRAM} v${VERSION}\n` : printData(output, facts));
    return Promise.resolve(EXIT.passed);
  },
});
