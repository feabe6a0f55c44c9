import { printYaml } from '../../config/yaml.ts';

/** How data for programs is written. */
export type DataFormat = 'json' | 'yaml';

/** For programs: the value as indented JSON, or as a YAML document. */
export function printData(format: DataFormat, value: unknown): string {
  return format === 'json' ? `${JSON.stringify(value, undefined, 2)}\n` : printYaml([value]);
}
