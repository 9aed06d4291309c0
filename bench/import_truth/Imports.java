import com.sun.source.tree.*;
import com.sun.source.util.JavacTask;
import java.nio.file.*;
import java.util.*;
import java.util.stream.*;
import javax.tools.*;

/** Prints, for each file named on the input, its package, its imports and its types as the JDK's parser reads them. */
public class Imports {
    public static void main(String[] arguments) throws Exception {
        var compiler = ToolProvider.getSystemJavaCompiler();
        try (var files = compiler.getStandardFileManager(d -> { }, null, null)) {
            for (String name : new String(System.in.readAllBytes(), "UTF-8").split("\n")) {
                var units = files.getJavaFileObjects(Path.of(arguments[0], name));
                var task = (JavacTask) compiler.getTask(null, files, d -> { }, List.of("-proc:none"), null, units);
                for (CompilationUnitTree unit : task.parse()) {
                    System.out.println("file\t" + name + "\t" + Objects.toString(unit.getPackageName(), ""));
                    for (ImportTree one : unit.getImports())
                        System.out.println("import\t" + (one.isStatic() ? "static" : "type") + "\t"
                            + one.getQualifiedIdentifier());
                    for (Tree one : unit.getTypeDecls())
                        if (one instanceof ClassTree type) System.out.println("type\t" + type.getSimpleName());
                }
            }
        }
    }
}
